"""`larder why`: what keeps a model, pod, node or group from its desired state, and the remedy."""
