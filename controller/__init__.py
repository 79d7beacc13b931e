"""The controller: decides which nodes hold which models, and places pods on those nodes."""
