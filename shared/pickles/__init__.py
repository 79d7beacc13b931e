"""Finds pickles by their content: loading one may run code. Nothing is ever unpickled here."""
