"""Which nodes should hold which models: plain functions of data."""
