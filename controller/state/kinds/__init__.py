"""Who owns the kinds that other products also define, and which fields their definitions have."""
