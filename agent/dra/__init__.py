"""The node side of Dynamic Resource Allocation: the models on this node as devices that claims can hold."""
