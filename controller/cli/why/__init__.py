"""`larder why`: what keeps one model, pod, node or group from where it should be, and the way out."""
