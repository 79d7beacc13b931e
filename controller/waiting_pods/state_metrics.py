"""How many pods wait for their models, and for how long."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from prometheus_client.core import GaugeMetricFamily, Metric

from controller.placement.pod_placement import Placement
from controller.waiting_pods.keys import WaitingKey
from controller.waiting_pods.view import WaitingView

PLACEMENTS: tuple[Placement, ...] = ("required", "preferred", "gated")


@dataclass(slots=True)
class WaitingPodsMetrics:
    """Remembers the pods that waited when each key was last reconciled; `now` is the UTC time."""

    now: Callable[[], datetime]
    _waits: dict[WaitingKey, dict[str, tuple[Placement, str]]] = field(default_factory=dict, init=False)

    def note(self, view: WaitingView) -> None:
        """Record the pods of a key that wait: by uid, their placement and creation time."""
        waits = {
            w.pod.metadata.uid: (w.placement, w.pod.metadata.creation_timestamp) for w in view.pods if view.waits(w)
        }
        if waits:
            self._waits[view.key] = waits
        else:
            self._waits.pop(view.key, None)

    def clear(self) -> None:
        """Drop everything, because another replica leads."""
        self._waits.clear()

    def gauges(self) -> Iterable[Metric]:
        """Yield the number of pods that wait, and the age of the oldest, by placement."""
        waits = {uid: wait for found in self._waits.values() for uid, wait in found.items()}.values()
        count = GaugeMetricFamily("larder_waiting_pods", "Pods that wait for a model.", labels=["placement"])
        oldest = GaugeMetricFamily(
            "larder_waiting_pods_oldest_seconds", "Age of the oldest pod that waits for a model.", labels=["placement"]
        )
        for placement in PLACEMENTS:
            created = [stamp for kind, stamp in waits if kind == placement]
            count.add_metric([placement], len(created))
            oldest.add_metric([placement], self._age_s(min(created, default="")))
        return count, oldest

    def _age_s(self, stamp: str) -> float:
        return max(0.0, (self.now() - datetime.fromisoformat(stamp)).total_seconds()) if stamp else 0.0
