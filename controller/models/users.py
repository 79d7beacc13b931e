"""What still uses a model that is being deleted: from memory turn by turn, and live before its object goes."""

from collections.abc import Sequence

from controller.admission.catalog import Catalog
from controller.placement.demand import Demand
from controller.services.references import services_with
from controller.world import World

Users = tuple[str, ...]  # each as `pod namespace/name` or `InferenceService namespace/name`


def known_users(world: World, demand: Demand) -> Users:
    """Return the users that memory has."""
    services = services_with(demand, world.services, world.demands.values())
    named = (f"{s.metadata.namespace}/{s.metadata.name}" for s in services)
    return _titled(sorted(named), world.pods_of(demand.id, demand.namespace))


async def live_users(catalog: Catalog, demand: Demand) -> Users:
    """Return the users as they are now, KServe's services among them; raises LarderError."""
    services = await catalog.services_of(demand.kind, demand.namespace, demand.name)
    return _titled(services, await catalog.live_users_of(demand.id, demand.namespace))


def _titled(services: Sequence[str], pods: Sequence[str]) -> Users:
    return (*(f"InferenceService {name}" for name in services), *(f"pod {name}" for name in pods))
