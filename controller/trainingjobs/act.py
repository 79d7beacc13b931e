"""Applies the actions decided for a TrainingJob."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime

from controller.claimtemplates.templates import VolumeClaimTemplate, is_controlled
from controller.manager.event_recorder import EventRecorder
from controller.manager.write import StaleError, replace_part, require_current
from controller.provisioning.exclusive_names import create_exclusively
from controller.trainingjobs.objects import JOB_LABEL, JobReplica, job_service, replica_claim, replica_pod
from controller.trainingjobs.report import READY, is_problem
from controller.trainingjobs.training_pod import TrainingPod
from shared.api.core import claims_in, pods_in
from shared.api.kinds import TRAINING_JOB
from shared.api.meta import condition_of
from shared.api.training_job import TrainingJob, TrainingJobStatus
from shared.json_object import Json
from shared.kube.collection import list_metadata
from shared.kube.edit import delete_if_present
from shared.kube.objects import Meta, Object
from shared.kube.transport import Kube


@dataclass(frozen=True, slots=True)
class TrainingJobActor:
    """Writes to the API server. Creations are idempotent, and never adopt an object that the job does not control."""

    kube: Kube
    events: EventRecorder
    now: Callable[[], datetime]

    async def create_service(self, job: TrainingJob) -> None:
        """Create the Service unless it exists. Raises RefusedName, KubeError."""
        await self._create(f"/api/v1/namespaces/{job.metadata.namespace}/services", job_service(job), job.metadata)

    async def create_claim(self, job: TrainingJob, replica: JobReplica, template: VolumeClaimTemplate) -> None:
        """Create a claim of a replica unless it exists. Raises RefusedName, KubeError."""
        await self._create(claims_in(job.metadata.namespace), replica_claim(job, replica, template), job.metadata)

    async def create_pod(
        self, job: TrainingJob, replica: JobReplica, templates: tuple[VolumeClaimTemplate, ...]
    ) -> None:
        """Create the pod of a replica unless it exists. Raises RefusedName, KubeError."""
        await self._create(pods_in(job.metadata.namespace), replica_pod(job, replica, templates), job.metadata)

    async def require_current(self, job: TrainingJob) -> None:
        """Raise StaleError if the job is not the one that was read any more."""
        await require_current(self.kube, TRAINING_JOB.path_to(job.metadata), job.metadata)

    async def require_pods(self, job: TrainingJob, pods: Collection[TrainingPod]) -> None:
        """Raise StaleError if one of these pods is gone, so that no failure of it counts twice."""
        if not pods:
            return
        query = {"labelSelector": f"{JOB_LABEL}={job.metadata.name}"}
        listed = await list_metadata(self.kube, pods_in(job.metadata.namespace), query)
        if not {pod.metadata.uid for pod in pods} <= {found.metadata.uid for found in listed}:
            raise StaleError(f"pods of {job.metadata.namespace}/{job.metadata.name} changed since they were read")

    async def delete_pod(self, seen: Meta) -> None:
        """Delete exactly the pod that was read."""
        await delete_if_present(self.kube, f"{pods_in(seen.namespace)}/{seen.name}", seen.uid)

    async def delete_job(self, seen: Meta) -> None:
        """Delete the job if it is still the version that was read."""
        await delete_if_present(self.kube, TRAINING_JOB.path_to(seen), seen.uid, seen.resource_version)

    async def write_status(self, job: TrainingJob, status: TrainingJobStatus) -> None:
        """Write the status if it differs, and an Event for a change of the condition Ready."""
        if status == job.status:
            return
        await replace_part(self.kube, f"{TRAINING_JOB.path_to(job.metadata)}/status", job.metadata, "status", status)
        ready, before, after = condition_of(status.conditions, READY), job.status.conditions, status.conditions
        warn = ready is not None and is_problem(ready)
        await self.events.record_ready(TRAINING_JOB, job.metadata, before, after, warn=warn)

    async def _create(self, collection: str, body: Json, job: Meta) -> None:
        await create_exclusively(
            self.kube,
            collection,
            body,
            Object,
            lambda found: is_controlled(found.metadata, job.uid),
            "delete it, or recreate the job under another name",
            "this job's",
        )
