"""What of the command line needs the engine."""
