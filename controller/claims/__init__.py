"""Models on PersistentVolumeClaims: check the claim, have a Job read the metadata once, report to the user."""
