"""OCI Object Storage."""
