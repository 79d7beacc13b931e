"""Third-party operators that read a configuration file, as processes beside the control plane."""
