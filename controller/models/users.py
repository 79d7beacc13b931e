"""What still uses a model being deleted: from caches on each reconcile, and read live before the object goes."""

from collections.abc import Sequence
from typing import Protocol

from controller.placement.demand import Demand
from controller.state.cluster_state import ClusterState
from controller.state.models.service_references import services_with

Users = tuple[str, ...]  # each `pod namespace/name` or `InferenceService namespace/name`


class LiveUsers(Protocol):
    """Reads the current users of a model from the API server; every method raises LarderError."""

    async def services_of(self, kind: str, namespace: str, name: str) -> Sequence[str]:
        """List the InferenceServices that name a model, including KServe's.

        Args:
            kind: Kind of the model.
            namespace: Its namespace; empty if it is cluster-scoped.
            name: Its name.

        Returns:
            The services, as `namespace/name`.
        """

    async def live_users_of(self, identity: str, namespace: str) -> Sequence[str]:
        """List the non-terminal pods that use any revision of a model.

        Args:
            identity: ID of the model.
            namespace: Its namespace; empty if it is cluster-scoped.

        Returns:
            The pods, as `namespace/name`.
        """


def known_users(cluster: ClusterState, demand: Demand) -> Users:
    """Return the users known to the caches."""
    services = services_with(demand, cluster.inference_services, cluster.models.demands.values())
    named = (f"{s.metadata.namespace}/{s.metadata.name}" for s in services)
    shadowed = cluster.models.is_shadowed(demand)
    return _titled(sorted(named), () if shadowed else cluster.pod_users.pods_of(demand.id, demand.namespace))


async def live_users(live: LiveUsers, cluster: ClusterState, demand: Demand) -> Users:
    """Return the current users, including KServe's services. Raises LarderError."""
    services = await live.services_of(demand.kind, demand.namespace, demand.name)
    shadowed = cluster.models.is_shadowed(demand)
    return _titled(services, () if shadowed else await live.live_users_of(demand.id, demand.namespace))


def _titled(services: Sequence[str], pods: Sequence[str]) -> Users:
    return (*(f"InferenceService {name}" for name in services), *(f"pod {name}" for name in pods))
