"""What reconciles of a pod leave in the queue of claims."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controller.manager.event_recorder import EventRecorder
from controller.manager.limited_events import LimitedEvents
from controller.provisioning.failed_creations import FailedCreations
from controller.replica_claims.act import ReplicaClaimActor
from controller.replica_claims.keys import ReplicaPodKey, TemplateClaimKey
from controller.replica_claims.observe import ReplicaPodObserver
from controller.replica_claims.owners import WorkloadOwners
from controller.replica_claims.pods import ReplicaPods
from controller.replica_claims.reconcile import ReplicaPodReconciler
from controller.replica_claims.state_metrics import ReplicaPodMetrics
from controller.replica_claims.workload_kinds import WorkloadKind, WorkloadKinds
from shared.api.core import PersistentVolumeClaim, Pod
from shared.kube.cache import Cache
from shared.kube.transport import Kube
from tests.builders.api_server import Objects
from tests.builders.provisioning import provisioner, serve
from tests.builders.replica_claims import GATE, TEMPLATES, template

KEY = ReplicaPodKey("team", "train-0")
CLAIMS = "/api/v1/namespaces/team/persistentvolumeclaims"
WORKLOAD = "/apis/apps/v1/namespaces/team/statefulsets/train"


def waiting_pod(workload: str, size: str) -> Pod:
    """Return a gated pod of the StatefulSet with this uid, with a claim of this size."""
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "train", "uid": workload, "controller": True}
    templates = [template(resources={"requests": {"storage": size}})]
    metadata = {
        "name": "train-0",
        "namespace": "team",
        "uid": f"pod-{workload}-{size}",
        "resourceVersion": f"{workload}-{size}",
        "creationTimestamp": "2026-06-01T12:00:00Z",
        "ownerReferences": [owner],
        "annotations": {TEMPLATES: json.dumps(templates)},
    }
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-train-0"}}]
    spec = {"schedulingGates": [{"name": GATE}], "volumes": volumes}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}, Pod)


@pytest.mark.parametrize(("workload", "size"), [("w2", "1Gi"), ("w1", "2Gi")])
async def test_a_claim_in_the_queue_is_created_for_the_pod_that_has_the_name_by_then(
    kube: Kube, objects: Objects, workload: str, size: str
) -> None:
    """The workload was deleted and created again, or the pod got another annotation."""
    created, queue, pods = list[dict[str, Any]](), provisioner(), ReplicaPods()

    def create(body: dict[str, Any]) -> dict[str, Any]:
        created.append(body)
        return body

    objects.posts[CLAIMS] = create
    owners = WorkloadOwners(kube, WorkloadKinds((WorkloadKind("apps/v1", "StatefulSet", "statefulsets"),)), lambda: 0.0)
    failures: FailedCreations[TemplateClaimKey] = FailedCreations(lambda: 0.0)
    claims: Cache[PersistentVolumeClaim] = Cache(lambda *_: None)
    reconciler = ReplicaPodReconciler(
        ReplicaPodObserver(pods, claims, owners, failures.of),
        ReplicaClaimActor(kube, owners),
        queue,
        LimitedEvents(EventRecorder(kube, lambda: datetime.now(UTC)), lambda: 0.0),
        ReplicaPodMetrics(lambda: datetime.now(UTC)),
        failures,
        lambda _: None,
    )
    for uid, wanted in (("w1", "1Gi"), (workload, size)):
        objects.objects[WORKLOAD] = {"metadata": {"name": "train", "namespace": "team", "uid": uid}}
        pods.upsert(waiting_pod(uid, wanted))
        await reconciler.reconcile(KEY)
    await serve(queue, KEY.flow)
    (claim,) = created
    assert claim["metadata"]["ownerReferences"][0]["uid"] == workload
    assert claim["spec"]["resources"]["requests"] == {"storage": size}
    assert failures.of(TemplateClaimKey("team", "data-train-0")) is None
