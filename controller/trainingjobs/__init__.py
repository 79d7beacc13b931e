"""TrainingJobs: pods that train together, each with its own claims, which outlive it."""
