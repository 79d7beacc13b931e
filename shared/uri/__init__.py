"""Model URIs."""
