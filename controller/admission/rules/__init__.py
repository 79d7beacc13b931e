"""What admission checks, a module for each kind."""
