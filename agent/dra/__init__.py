"""The node side of Dynamic Resource Allocation: offers the models on this node as devices for claims."""
