"""What reconciles of a TrainingJob leave in the queue of claims."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from controller.manager.event_recorder import EventRecorder
from controller.manager.write import StaleError
from controller.trainingjobs.act import TrainingJobActor
from controller.trainingjobs.observe import TrainingJobObserver
from controller.trainingjobs.reconcile import TrainingJobReconciler
from controller.trainingjobs.requested_claims import RequestedClaims
from shared.api.training_job import RunPolicy, TrainingJob, TrainingJobStatus
from shared.kube.errors import NotFound
from shared.kube.transport import Kube
from tests.builders.api_server import Objects, listed
from tests.builders.provisioning import provisioner, serve
from tests.builders.training_jobs import EARLIER, KEY, TEMPLATE, Observed, pod, replica_spec, training_job

CLAIMS, SERVICES, PODS = (f"/api/v1/namespaces/team/{kind}" for kind in ("persistentvolumeclaims", "services", "pods"))

JOB = "/apis/larder.dev/v1alpha1/namespaces/team/trainingjobs/tj"


class ReconcilerRig:
    """A reconciler, and the claims that it creates."""

    def __init__(self, kube: Kube, objects: Objects) -> None:
        self.created, self.seen, self.versions = list[dict[str, Any]](), Observed(), 0
        self.provisioner = provisioner()
        requested, known = RequestedClaims(self.provisioner), self.seen
        observer = TrainingJobObserver(known.jobs, known.claims, known.recent, known.failures, requested.state)
        actor = TrainingJobActor(kube, EventRecorder(kube, _now), _now)
        self.reconciler = TrainingJobReconciler(observer, actor, requested, lambda _: None)
        objects.posts |= {CLAIMS: self._create, SERVICES: lambda body: body}

    async def see(self, job: TrainingJob) -> None:
        """Reconcile this version of the job."""
        self.versions += 1
        meta = msgspec.structs.replace(job.metadata, resource_version=str(self.versions))
        self.seen.jobs.jobs.upsert(msgspec.structs.replace(job, metadata=meta))
        with suppress(NotFound):  # the server has no job whose status could be written
            await self.reconciler.reconcile(KEY)

    def _create(self, body: dict[str, Any]) -> dict[str, Any]:
        self.created.append(body)
        return body


def _now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
async def rig(kube: Kube, objects: Objects) -> ReconcilerRig:
    return ReconcilerRig(kube, objects)


async def test_a_claim_in_the_queue_is_created_from_the_template_as_it_is_by_then(rig: ReconcilerRig) -> None:
    await rig.see(training_job())
    spec = TEMPLATE["spec"] | {"resources": {"requests": {"storage": "2Gi"}}}
    await rig.see(training_job(Worker=replica_spec(volume_claim_templates=[TEMPLATE | {"spec": spec}])))
    await serve(rig.provisioner, KEY.flow)
    assert [body["spec"]["resources"]["requests"] for body in rig.created] == [{"storage": "2Gi"}]


async def test_a_claim_in_the_queue_whose_template_was_renamed_is_not_created(rig: ReconcilerRig) -> None:
    await rig.see(training_job())
    renamed = TEMPLATE | {"metadata": {"name": "scratch"}}
    await rig.see(training_job(Worker=replica_spec(volume_claim_templates=[renamed])))
    await serve(rig.provisioner, KEY.flow)
    assert [body["metadata"]["name"] for body in rig.created] == ["scratch-tj-worker-0"]


async def test_a_webhook_that_fails_is_reported_on_the_job_whose_pods_it_stops(
    rig: ReconcilerRig, objects: Objects
) -> None:
    objects.refused[PODS] = 500
    objects.messages[PODS] = 'Internal error occurred: failed calling webhook "a.example.org": EOF'
    await rig.see(training_job(Worker=replica_spec(claims=False)))
    failure = rig.seen.failures.of(("u1", "Worker"))
    assert failure is not None
    assert "failed calling webhook" in failure.message
    assert failure.retry_s


async def test_pods_are_not_deleted_for_a_job_that_has_changed_since_it_was_read(
    rig: ReconcilerRig, objects: Objects
) -> None:
    suspended = training_job(run=RunPolicy(suspend=True))
    rig.seen.jobs.pods.upsert(pod())
    objects.objects[JOB] = {"metadata": {"name": "tj", "uid": "u1", "resourceVersion": "7"}}  # resumed meanwhile
    with pytest.raises(StaleError):
        await rig.see(suspended)
    assert f"DELETE {PODS}/tj-worker-0" not in objects.asked
    objects.objects[JOB]["metadata"]["resourceVersion"] = "2"
    await rig.see(suspended)
    assert f"DELETE {PODS}/tj-worker-0" in objects.asked


async def test_the_failure_of_a_pod_that_is_gone_is_not_counted_again(rig: ReconcilerRig, objects: Objects) -> None:
    worker = replica_spec(claims=False, restart_policy="ExitCode")
    failed = pod(phase="Failed", code=137)
    rig.seen.jobs.pods.upsert(failed)
    objects.posts[PODS] = lambda body: body
    objects.objects[PODS] = listed()  # the previous leader counted it, and replaced the pod
    objects.objects[f"{JOB}/status"] = {"metadata": {"name": "tj", "uid": "u1", "resourceVersion": "9"}}
    job = training_job(TrainingJobStatus(start_time=EARLIER, restarts=1), run=RunPolicy(backoff_limit=1), Worker=worker)
    with pytest.raises(StaleError, match="pods of team/tj"):
        await rig.see(job)
    objects.objects[PODS] = listed({"metadata": {"name": "tj-worker-0", "uid": failed.metadata.uid}})
    with pytest.raises(StaleError, match="trainingjobs/tj/status"):  # it gets as far as the write
        await rig.see(job)
