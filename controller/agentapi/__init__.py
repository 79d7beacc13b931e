"""The API for agents: manifests, credentials, and progress reports."""
