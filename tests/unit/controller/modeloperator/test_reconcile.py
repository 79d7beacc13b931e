"""What reconciles of a Model leave in the queue of claims."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from controller.downloads.job import DownloadJobSettings
from controller.downloads.progress import ProgressReader
from controller.manager.event_recorder import EventRecorder
from controller.manager.write import StaleError
from controller.modeloperator.act import ModelOperatorActor
from controller.modeloperator.download_metrics import ModelDownloadMetrics
from controller.modeloperator.keys import ModelObjectKey
from controller.modeloperator.observe import ModelOperatorObserver
from controller.modeloperator.reconcile import ModelOperatorReconciler
from controller.provisioning.creations import Creations
from controller.provisioning.provisioner import Provisioner
from shared.kube.errors import NotFound
from shared.kube.transport import Kube
from tests.builders.api_server import Objects
from tests.builders.cluster import fresh_cluster
from tests.builders.models_on_claims import NOW, begun, claim, model
from tests.builders.provisioning import provisioner, serve

KEY = ModelObjectKey("team", "llama")
CLAIMS = "/api/v1/namespaces/team/persistentvolumeclaims"
JOBS = "/apis/batch/v1/namespaces/team/jobs"
MODEL_PATH = "/apis/models.example.com/v1alpha1/namespaces/team/models/llama"


def reconciler_with(kube: Kube, queue: Provisioner) -> ModelOperatorReconciler:
    progress: ProgressReader[ModelObjectKey] = ProgressReader(lambda: 0.0, lambda _: None)
    observer = ModelOperatorObserver(fresh_cluster(), kube, progress)
    metrics = ModelDownloadMetrics(CollectorRegistry())
    events, jobs = EventRecorder(kube, lambda: NOW), DownloadJobSettings("agent")
    actor = ModelOperatorActor(kube, events, jobs, metrics, lambda: NOW)
    creations: Creations[ModelObjectKey] = Creations(queue, lambda _: None, lambda: 0.0)
    return ModelOperatorReconciler(observer, actor, creations, lambda: NOW)


async def test_no_job_is_started_for_a_model_that_has_changed_since_it_was_read(kube: Kube, objects: Objects) -> None:
    reconciler, found = reconciler_with(kube, provisioner()), model(begun())
    reconciler.observer.models.upsert(found)
    reconciler.observer.cluster.volumes.claims.upsert(claim())
    stored = {"metadata": {"name": "llama", "uid": "u1", "resourceVersion": "7"}}
    objects.objects[MODEL_PATH] = stored  # a newer version is served from a directory that the Job would remove
    with pytest.raises(StaleError):
        await reconciler.reconcile(KEY)
    assert f"POST {JOBS}" not in objects.asked
    stored["metadata"]["resourceVersion"] = found.metadata.resource_version
    with suppress(NotFound):  # the server creates no Jobs
        await reconciler.reconcile(KEY)
    assert f"POST {JOBS}" in objects.asked


async def test_a_claim_in_the_queue_is_created_as_the_model_wants_it_by_then(kube: Kube, objects: Objects) -> None:
    created, queue = list[dict[str, Any]](), provisioner()

    def create(body: dict[str, Any]) -> dict[str, Any]:
        created.append(body)
        return body

    objects.posts[CLAIMS] = create
    reconciler = reconciler_with(kube, queue)
    for version, storage in enumerate(
        ({"storageClass": "slow", "size": "20Ti"}, {"storageClass": "fast", "size": "20Gi"})
    ):
        found = model(storage=storage)
        meta = msgspec.structs.replace(found.metadata, resource_version=str(version))
        reconciler.observer.models.upsert(msgspec.structs.replace(found, metadata=meta))
        with suppress(NotFound):  # the server has no Model whose status could be written
            await reconciler.reconcile(KEY)
    await serve(queue, KEY.flow)
    assert [(body["spec"]["storageClassName"], body["spec"]["resources"]["requests"]) for body in created] == [
        ("fast", {"storage": "20Gi"})
    ]
