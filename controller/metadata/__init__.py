"""What a model is: kept in its status, filled into its spec, and of models on nodes read from their sources."""
