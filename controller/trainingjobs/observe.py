"""Gathers the input of a decision on a TrainingJob, from memory only."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from controller.claimtemplates.templates import (
    InvalidTemplates,
    VolumeClaimTemplate,
    claim_name,
    is_controlled,
    name_problem,
)
from controller.provisioning.creation_failure import CreationFailure
from controller.provisioning.failed_creations import FailedCreations
from controller.trainingjobs.keys import ReplicaClaimKey, TrainingJobKey
from controller.trainingjobs.objects import LONGEST_NAME, JobReplica, replicas_of, templates_of
from controller.trainingjobs.outcome import has_ended
from controller.trainingjobs.recent_creations import RecentCreations
from controller.trainingjobs.report import NAME_CONFLICT, NAME_TOO_LONG, TERMINATING
from controller.trainingjobs.state import TrainingJobs
from controller.trainingjobs.view import JobObstacle, QueueState, ReplicaView, TrainingJobView
from shared.api.core import BOUND, PersistentVolumeClaim
from shared.api.training_job import TrainingJob
from shared.kube.cache import Cache
from shared.kube.objects import Key, Meta, Object

FailureKey = tuple[str, str]  # the uid of a job, and a role, a pod's name, or "" for the Service


@dataclass(frozen=True, slots=True)
class TrainingJobObserver:
    """Reads the caches.

    Args:
        jobs: The jobs, and their pods and Services.
        claims: Every claim of the cluster.
        recent: Objects just created that the caches may not have yet.
        failures: Objects that could not be created.
        queue_state: Returns a job's state in the queue.
    """

    jobs: TrainingJobs
    claims: Cache[PersistentVolumeClaim]
    recent: RecentCreations
    failures: FailedCreations[FailureKey]
    queue_state: Callable[[TrainingJobKey], QueueState]

    def view(self, key: TrainingJobKey) -> TrainingJobView | None:
        """Return a job and its objects, or None if it does not exist."""
        job = self.jobs.job(key)
        if job is None:
            return None
        pods = tuple(self.jobs.pods_of(job.metadata.uid))
        if job.metadata.deletion_timestamp is not None or has_ended(job.status) or job.spec.run_policy.suspend:
            return TrainingJobView(job, pods)
        try:
            templates = {role: templates_of(spec, role) for role, spec in job.spec.replica_specs.items()}
        except InvalidTemplates as error:
            return TrainingJobView(job, pods, invalid=str(error))
        replicas = tuple(self._replica(job, replica, templates) for replica in replicas_of(job))
        service = self.jobs.services.get(Key(key.namespace, key.name))
        has_service = service is not None or ("Service", job.metadata.uid) in self.recent
        missing = {r.replica.role for r in replicas if r.missing or (r.pod is None and r.obstacle is None)}
        return TrainingJobView(
            job=job,
            pods=pods,
            replicas=replicas,
            templates=templates,
            has_service=has_service,
            service_obstacle=_service_obstacle(job, service),
            failures=self._failures(job, missing if has_service else {"", *missing}),
            queue=self.queue_state(key),
            active=self.jobs.active_in(key.namespace),
        )

    def _failures(self, job: TrainingJob, missing: Collection[str]) -> dict[str, CreationFailure]:
        """Return why objects that are still missing could not be created, and forget the failures of all others.

        An object may exist although its creation seemed to fail, and a role may no longer want what was refused.
        """
        found = dict[str, CreationFailure]()
        for name in ("", *job.spec.replica_specs):
            key = job.metadata.uid, name
            if name not in missing:
                self.failures.forget(key)
            elif failure := self.failures.of(key):
                found[name] = failure
        return found

    def _replica(
        self, job: TrainingJob, replica: JobReplica, templates: Mapping[str, tuple[VolumeClaimTemplate, ...]]
    ) -> ReplicaView:
        name, meta = replica.pod(job.metadata), job.metadata
        found = self.jobs.pods.get(Key(meta.namespace, name))
        if found is not None and is_controlled(found.metadata, meta.uid):
            self.recent.seen(found.key)
            of_role = templates[replica.role]
            missing = self._missing(meta, name, of_role) if found.phase == "Pending" and not found.is_leaving else ()
            unbound = tuple(self._unbound(meta.namespace, name, of_role))
            return ReplicaView(replica, name, found, missing=missing, unbound=unbound)
        if found is not None:
            return ReplicaView(replica, name, obstacle=_obstacle(found.metadata, meta, "pod"))
        if Key(meta.namespace, name) in self.recent:
            return ReplicaView(replica, name, expected=True)
        if len(name) > LONGEST_NAME:
            return ReplicaView(replica, name, obstacle=_too_long(name))
        failure = self.failures.of((meta.uid, name))
        if failure is not None and failure.retry_s:
            return ReplicaView(replica, name, obstacle=JobObstacle(NAME_CONFLICT, failure.message))
        return self._without_pod(meta, replica, name, templates[replica.role])

    def _without_pod(
        self, job: Meta, replica: JobReplica, name: str, templates: tuple[VolumeClaimTemplate, ...]
    ) -> ReplicaView:
        for template in templates:
            claim = claim_name(template.name, name)
            if problem := name_problem(claim):
                return ReplicaView(replica, name, obstacle=JobObstacle(NAME_TOO_LONG, problem))
            found = self.claims.get(Key(job.namespace, claim))
            if found is not None and (obstacle := _obstacle(found.metadata, job, "claim")):
                return ReplicaView(replica, name, obstacle=obstacle)
        return ReplicaView(replica, name, missing=self._missing(job, name, templates))

    def _missing(
        self, job: Meta, name: str, templates: tuple[VolumeClaimTemplate, ...]
    ) -> tuple[VolumeClaimTemplate, ...]:
        """Return the templates of a pod's claims that do not exist."""
        missing = list[VolumeClaimTemplate]()
        for template in templates:
            claim = claim_name(template.name, name)
            wanted = ReplicaClaimKey(job.namespace, claim, job.uid)
            if self.claims.get(Key(job.namespace, claim)) is not None:
                self.recent.seen(wanted)
            elif wanted not in self.recent:
                missing.append(template)
        return tuple(missing)

    def _unbound(self, namespace: str, pod: str, templates: tuple[VolumeClaimTemplate, ...]) -> list[str]:
        names = (claim_name(template.name, pod) for template in templates)
        found = ((name, self.claims.get(Key(namespace, name))) for name in names)
        return [name for name, claim in found if claim is not None and claim.status.phase != BOUND]


def _obstacle(found: Meta, job: Meta, what: str) -> JobObstacle | None:
    """Return why a job cannot use an existing object with a name that it needs, or None if it can."""
    title = f"{what} {found.namespace}/{found.name}"
    if found.deletion_timestamp is not None:
        return JobObstacle(TERMINATING, f"{title} is being deleted; it is recreated once it is gone")
    if is_controlled(found, job.uid):
        return None
    owner = next((o for o in found.owner_references if o.get("controller") is True), {})
    if owner.get("kind") == "TrainingJob" and owner.get("name") == job.name:
        return JobObstacle(TERMINATING, f"{title} belongs to an earlier job with this name; Kubernetes is deleting it")
    whose = f"belongs to {owner.get('kind')} {owner.get('name')}" if owner else "exists already"
    advice = f"recreate the job under another name, or delete the {what}"
    return JobObstacle(NAME_CONFLICT, f"{title} {whose} and is not this job's, so it is not used; {advice}")


def _service_obstacle(job: TrainingJob, service: Object | None) -> JobObstacle | None:
    return _obstacle(service.metadata, job.metadata, "Service") if service is not None else None


def _too_long(pod: str) -> JobObstacle:
    message = (
        f"the pod name {pod[:80]} has {len(pod)} characters, and at most {LONGEST_NAME} are allowed because it is "
        "also the host name; give the job a shorter name"
    )
    return JobObstacle(NAME_TOO_LONG, message)
