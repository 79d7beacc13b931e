"""Admission webhooks: mutate pods to use their model, and reject invalid objects."""
