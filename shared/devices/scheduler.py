"""The names that send pods with devices to our scheduler, and the scheduler to the extender."""

SCHEDULER_NAME = "larder-scheduler"  # its Deployment is named the same
DEFAULT_SCHEDULER = "default-scheduler"  # of pods that name none
DEVICES_RESOURCE = "larder.dev/devices"  # an extended resource that no node has: who requests it needs the extender
NAMESPACE_LABEL = "larder.dev/device-scheduling"  # "true" on namespaces whose pods our scheduler may place
