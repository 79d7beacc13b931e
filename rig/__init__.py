"""Real components on one machine, for the demo and the tests: a control plane, an S3 server, a hub."""
