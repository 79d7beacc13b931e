"""The names that send pods with devices to our scheduler, and the scheduler to the extender."""

SCHEDULER_NAME = "larder-scheduler"
DEVICES_RESOURCE = "larder.dev/devices"  # an extended resource that no node has: who requests it needs the extender
