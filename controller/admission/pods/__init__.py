"""What admission changes in pods and Jobs: models, volumes, placement, and claims of replicas."""
