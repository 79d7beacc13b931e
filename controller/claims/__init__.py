"""One model on a claim: look at the claim, have its metadata read once by a Job, tell the user."""
