"""One InferenceService: a Deployment, a Service, an autoscaler, and the users that it makes of a model."""
