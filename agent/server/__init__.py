"""What an agent tells over HTTP."""
