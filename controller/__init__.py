"""The controller: decides which node holds which model, and gets pods to them."""
