"""Model metadata: kept in the status, filled into the spec, and for models on nodes read from the source."""
