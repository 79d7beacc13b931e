"""System calls and kernel files that Python does not cover; independent of models."""
