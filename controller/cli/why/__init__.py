"""`larder why`: explains why a model, pod, workload, node or group is not in its desired state."""
