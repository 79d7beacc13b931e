"""What still uses a model that is being deleted: from memory turn by turn, and live before its object goes."""

from collections.abc import Sequence
from typing import Protocol

from controller.placement.demand import Demand
from controller.state.cluster_state import ClusterState
from controller.state.service_references import services_with

Users = tuple[str, ...]  # each as `pod namespace/name` or `InferenceService namespace/name`


class LiveUsers(Protocol):
    """Reads who uses a model now; every method raises LarderError."""

    async def services_of(self, kind: str, namespace: str, name: str) -> Sequence[str]:
        """Return the InferenceServices, KServe's among them, as `namespace/name`."""

    async def live_users_of(self, identity: str, namespace: str) -> Sequence[str]:
        """Return the non-terminal pods of any revision, as `namespace/name`."""


def known_users(cluster: ClusterState, demand: Demand) -> Users:
    """Return the users that memory has."""
    services = services_with(demand, cluster.services, cluster.demands.values())
    named = (f"{s.metadata.namespace}/{s.metadata.name}" for s in services)
    return _titled(sorted(named), cluster.pod_users.pods_of(demand.id, demand.namespace))


async def live_users(live: LiveUsers, demand: Demand) -> Users:
    """Return the users as they are now, KServe's services among them; raises LarderError."""
    services = await live.services_of(demand.kind, demand.namespace, demand.name)
    return _titled(services, await live.live_users_of(demand.id, demand.namespace))


def _titled(services: Sequence[str], pods: Sequence[str]) -> Users:
    return (*(f"InferenceService {name}" for name in services), *(f"pod {name}" for name in pods))
