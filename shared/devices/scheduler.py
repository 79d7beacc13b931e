"""Names that pods with devices, our scheduler and the extender share."""

SCHEDULER_NAME = "larder-scheduler"  # also the name of its Deployment
DEFAULT_SCHEDULER = "default-scheduler"  # what the API server sets if a pod names none
DEVICES_RESOURCE = "larder.dev/devices"  # an extended resource that no node has; it marks pods that need the extender
NAMESPACE_LABEL = "larder.dev/device-scheduling"  # "true" on namespaces whose pods our scheduler may place
