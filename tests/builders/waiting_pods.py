"""Pods that wait for a model, and the node labels of one."""

from collections.abc import Mapping

from controller.waiting_pods.keys import WaitingKey
from shared.api.core import Affinity, Pod, PodSpec, SchedulingGate
from shared.names import ready_label, snapshot_label
from tests.builders.cluster import conditions, meta

KEY = WaitingKey("ns", "m", "r1")
POOL = {"pool": "gpu"}
FILES = {ready_label("m"): "true", snapshot_label("m", "r1"): "true"}
GATE = SchedulingGate(name="larder.dev/model")


def waiting_pod(
    name: str = "p",
    node_name: str = "",
    *,
    selector: Mapping[str, str] | None = None,
    affinity: Affinity | None = None,
    gated: bool = False,
    models: str = "m@r1",
    **annotations: str,
) -> Pod:
    """Return a pod of namespace `ns` that was given models and does not run; annotations lack their prefix."""
    spec = PodSpec(
        node_name=node_name,
        node_selector=dict(selector or {}),
        affinity=affinity or Affinity(),
        scheduling_gates=[GATE] if gated else [],
    )
    waiting = {"larder.dev/models": models} | {f"larder.dev/{k.replace('_', '-')}": v for k, v in annotations.items()}
    return Pod(
        metadata=meta(name, namespace="ns", annotations=waiting),
        spec=spec,
        status=conditions(ready=False, phase="Pending"),
    )
