"""The manager that features register with: informers, workqueue, workers, leader election, metrics, health."""
