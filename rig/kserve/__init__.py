"""The real KServe controller on the control plane of the rig, with the CRDs and configuration of its Go module."""
