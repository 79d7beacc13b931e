"""Which claims of Dynamic Resource Allocation hold models, and what drivers offer."""
