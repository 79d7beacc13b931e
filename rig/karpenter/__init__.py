"""Karpenter with its provider `kwok`, whose nodes are Node objects without a machine, beside the control plane."""
