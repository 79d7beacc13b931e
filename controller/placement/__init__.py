"""Which node shall hold which model: plain functions of data."""
