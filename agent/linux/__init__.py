"""System calls that Python has no function for, and files of the kernel; knows nothing of models."""
