"""Metrics of the pods that wait for their claims."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from prometheus_client.core import Metric

from controller.manager.state_metrics import gauge
from controller.replica_claims.keys import ReplicaPodKey
from controller.replica_claims.view import ReplicaPodView


@dataclass(slots=True)
class ReplicaPodMetrics:
    """Tracks the pods that had our gate when last reconciled; `now` returns the UTC time."""

    now: Callable[[], datetime]
    _waits: dict[ReplicaPodKey, str] = field(default_factory=dict, init=False)  # their creation times

    def note(self, view: ReplicaPodView) -> None:
        """Record whether a pod waits."""
        if view.pod is not None and view.gated:
            self._waits[view.key] = view.pod.metadata.creation_timestamp
        else:
            self._waits.pop(view.key, None)

    def clear(self) -> None:
        """Drop everything, because another replica leads now."""
        self._waits.clear()

    def gauges(self) -> Iterable[Metric]:
        """Return the number of waiting pods, and the age of the oldest."""
        oldest = min(self._waits.values(), default="")
        age_s = (self.now() - datetime.fromisoformat(oldest)).total_seconds() if oldest else 0.0
        return (
            gauge("larder_replica_pods", "Pods that wait for their claims.", len(self._waits)),
            gauge(
                "larder_replica_pods_oldest_seconds",
                "Age of the oldest pod that waits for its claims.",
                max(0.0, age_s),
            ),
        )
