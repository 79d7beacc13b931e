"""Operators of others with a configuration file, as processes beside the control plane."""
