"""What a feature is declared to, and what runs it: watches, queue, workers, leader hooks, metrics, health."""
