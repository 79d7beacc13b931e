"""The real JobSet controller on the control plane of the rig, with the CRD and webhooks of its Go module."""
