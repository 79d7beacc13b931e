"""The admission rules, one module per kind."""
