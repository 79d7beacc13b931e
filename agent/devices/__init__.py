"""Runs device plugins and advertises their devices in the Node's annotation and status."""
