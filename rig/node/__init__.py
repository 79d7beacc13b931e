"""Real nodes on one machine: kubelet, containerd and pods in private namespaces, as root."""
