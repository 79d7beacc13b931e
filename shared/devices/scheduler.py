"""The names by which pods with devices come to our scheduler, and it to the extender."""

SCHEDULER_NAME = "larder-scheduler"
DEVICES_RESOURCE = "larder.dev/devices"  # an extended resource that no node has: who requests it needs the extender
