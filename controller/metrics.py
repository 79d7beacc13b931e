"""What the controller measures of itself; never a label per node and model."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """Every metric, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.leading = Gauge("larder_controller_leading", "1 while this replica leads.", registry=self.registry)
        self.queue = Gauge("larder_controller_queue_length", "Keys that wait for a turn.", registry=self.registry)
        self.turns = Histogram(
            "larder_controller_reconcile_seconds", "Length of a turn.", ["kind"], registry=self.registry
        )
        self.failures = Counter(
            "larder_controller_reconcile_failures", "Turns that failed.", ["kind"], registry=self.registry
        )
        self.watch_troubles = Counter(
            "larder_controller_watch_troubles", "Watches that had to start again.", ["resource"], registry=self.registry
        )
