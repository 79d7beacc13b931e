"""What reconciles of a Model leave in the queue of claims."""

from contextlib import suppress
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from controller.downloads.job import DownloadJobSettings
from controller.downloads.progress import ProgressReader
from controller.manager.event_recorder import EventRecorder
from controller.modeloperator.act import ModelOperatorActor
from controller.modeloperator.download_metrics import ModelDownloadMetrics
from controller.modeloperator.keys import DownloadedModelKey
from controller.modeloperator.observe import ModelOperatorObserver
from controller.modeloperator.reconcile import ModelOperatorReconciler
from controller.provisioning.creations import Creations
from shared.kube.errors import NotFound
from shared.kube.transport import Kube
from tests.builders.api_server import Objects
from tests.builders.cluster import fresh_cluster
from tests.builders.models_on_claims import NOW, model
from tests.builders.provisioning import provisioner, serve

KEY = DownloadedModelKey("team", "llama")
CLAIMS = "/api/v1/namespaces/team/persistentvolumeclaims"


async def test_a_claim_in_the_queue_is_created_as_the_model_wants_it_by_then(kube: Kube, objects: Objects) -> None:
    created, queue = list[dict[str, Any]](), provisioner()

    def create(body: dict[str, Any]) -> dict[str, Any]:
        created.append(body)
        return body

    objects.posts[CLAIMS] = create
    progress: ProgressReader[DownloadedModelKey] = ProgressReader(lambda: 0.0, lambda _: None)
    observer = ModelOperatorObserver(fresh_cluster(), kube, progress)
    metrics = ModelDownloadMetrics(CollectorRegistry())
    events, jobs = EventRecorder(kube, lambda: NOW), DownloadJobSettings("agent")
    actor = ModelOperatorActor(kube, events, jobs, metrics, lambda: NOW)
    creations: Creations[DownloadedModelKey] = Creations(queue, lambda _: None, lambda: 0.0)
    reconciler = ModelOperatorReconciler(observer, actor, creations, lambda: NOW)
    for version, storage in enumerate(
        ({"storageClass": "slow", "size": "20Ti"}, {"storageClass": "fast", "size": "20Gi"})
    ):
        found = model(storage=storage)
        meta = msgspec.structs.replace(found.metadata, resource_version=str(version))
        observer.models.upsert(msgspec.structs.replace(found, metadata=meta))
        with suppress(NotFound):  # the server has no Model whose status could be written
            await reconciler.reconcile(KEY)
    await serve(queue, KEY.flow)
    assert [(body["spec"]["storageClassName"], body["spec"]["resources"]["requests"]) for body in created] == [
        ("fast", {"storage": "20Gi"})
    ]
