"""The real KServe controller beside the rig's control plane, with the CRDs and configuration of its Go module."""
