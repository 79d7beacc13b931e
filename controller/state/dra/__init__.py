"""The claims of Dynamic Resource Allocation that hold models, and the devices that drivers offer."""
