"""Which pods wait for a claim that another pod holds. No input or output, no clock."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from controller.jobs.observed_jobs import ClaimPod
from shared.api.core import PersistentVolumeClaim
from shared.api.meta import condition_of

CLAIM_IN_USE = "ClaimInUse"
ONE_POD, ONE_NODE = "ReadWriteOncePod", "ReadWriteOnce"
_SHARED = frozenset(("ReadWriteMany", "ReadOnlyMany"))


@dataclass(frozen=True, slots=True)
class Wait:
    """A pod that cannot start before another one ends; `message` says who holds the claim, and where."""

    pod: ClaimPod
    holder: ClaimPod
    message: str


def limit_of(claim: PersistentVolumeClaim | None) -> str:
    """Return the access mode that limits a claim to one pod or node, or an empty string if many nodes can use it."""
    modes = frozenset(claim.spec.access_modes) if claim else frozenset[str]()
    if ONE_POD in modes:
        return ONE_POD
    return ONE_NODE if modes and not modes & _SHARED else ""


def users_of(claim: PersistentVolumeClaim, pods: Iterable[ClaimPod]) -> list[ClaimPod]:
    """Return the scheduled pods that use a claim, by name; those that have not mounted it yet come last."""
    found = (pod for pod in pods if pod.uses(claim.metadata.name))
    return sorted(found, key=lambda pod: (_is_mounting(pod), pod.metadata.name))


def waits_of(claim: PersistentVolumeClaim, pods: Iterable[ClaimPod]) -> Iterator[Wait]:
    """Yield the waiting pods, by name; `pods` are those of the claim's namespace that have not ended.

    The scheduler keeps a second pod of a ReadWriteOncePod claim from every node. One of a ReadWriteOnce claim gets a
    node and waits there for its volume: kubelet creates no sandbox before all volumes are mounted.
    """
    name, limit = claim.metadata.name, limit_of(claim)
    named = sorted((p for p in pods if p.names(name)), key=lambda p: p.metadata.name) if limit else []
    holders = [p for p in users_of(claim, named) if p.metadata.deletion_timestamp or not _is_mounting(p)]
    for pod in named:
        others = [p for p in holders if p is not pod and (limit == ONE_POD or p.spec.node_name != pod.spec.node_name)]
        if others and _waits(pod, limit):
            yield Wait(pod, others[0], _message(pod, others[0], f"PVC {name} is {limit}"))


def _waits(pod: ClaimPod, limit: str) -> bool:
    if pod.metadata.deletion_timestamp is not None:
        return False
    if pod.spec.node_name:
        return _is_mounting(pod)
    scheduled = condition_of(pod.status.conditions, "PodScheduled")
    return limit == ONE_POD and scheduled is not None and scheduled.status == "False"


def _is_mounting(pod: ClaimPod) -> bool:
    """Return whether kubelet reports that the pod has no sandbox yet; without a report it is assumed to have one."""
    started = condition_of(pod.status.conditions, "PodReadyToStartContainers")
    return started is not None and started.status == "False"


def _message(pod: ClaimPod, holder: ClaimPod, what: str) -> str:
    where = f" on node {pod.spec.node_name}" if pod.spec.node_name else ""
    has = f"{what} and in use by pod {holder.metadata.name} on node {holder.spec.node_name}"
    return f"pod {pod.metadata.name}{where} waits: {has}"
