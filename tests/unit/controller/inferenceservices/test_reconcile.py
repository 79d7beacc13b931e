"""What a reconcile applies for a service that has changed since it was read."""

from datetime import UTC, datetime

import pytest

from controller.admission.catalog.state_catalog import StateCatalog
from controller.inferenceservices.act import ServiceActor
from controller.inferenceservices.keys import ServiceKey
from controller.inferenceservices.observe import ServiceObserver
from controller.inferenceservices.reconcile import ServiceReconciler
from controller.inferenceservices.users import ServiceUsers
from controller.manager.event_recorder import EventRecorder
from controller.manager.write import StaleError
from controller.sources.manifests import Manifests
from controller.state.dra.claim_users import ResourceClaimUsers
from shared.api.kinds import INFERENCE_SERVICE
from shared.kube.transport import Kube
from tests.builders.api_server import Objects
from tests.builders.cluster import fresh_cluster
from tests.builders.services import service

KEY = ServiceKey("team", "svc")


async def test_a_stale_service_does_not_replace_what_a_newer_one_applied(kube: Kube, objects: Objects) -> None:
    cluster, found = fresh_cluster(), service()
    cluster.inference_services.upsert(found)
    catalog = StateCatalog(
        cluster,
        kube,
        Manifests(kube, "ns"),
        ServiceUsers(kube, cluster, enabled=True),
        ResourceClaimUsers(kube, enabled=False),
    )

    def now() -> datetime:
        return datetime.now(UTC)

    actor = ServiceActor(kube, EventRecorder(kube, now), now)
    reconciler = ServiceReconciler(ServiceObserver(cluster, kube, catalog), actor)
    newer = {"name": "svc", "uid": found.metadata.uid, "resourceVersion": "7000"}
    objects.objects[f"{INFERENCE_SERVICE.path_in('team')}/svc"] = {"metadata": newer}
    with pytest.raises(StaleError):
        await reconciler.reconcile(KEY)
    assert not [asked for asked in objects.asked if not asked.startswith("GET ")]
