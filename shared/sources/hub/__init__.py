"""Hugging Face hubs."""
