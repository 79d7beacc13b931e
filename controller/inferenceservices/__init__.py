"""InferenceServices: a Deployment, a Service and an autoscaler for each, and their use of models."""
