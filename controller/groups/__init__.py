"""Node groups: their status, and which of their nodes may download now."""
