"""TrainingJobs: pods that train together, each with claims of its own that outlive it."""
