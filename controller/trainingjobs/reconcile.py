"""Reconciles one TrainingJob: observe, decide, act."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import assert_never

import structlog

from controller.claimtemplates.templates import VolumeClaimTemplate, claim_name
from controller.manager.actions import Requeue
from controller.provisioning.exclusive_names import RefusedName
from controller.provisioning.provision_queue import ProvisionOrder
from controller.provisioning.provision_request import ProvisionRequest
from controller.trainingjobs.act import TrainingJobActor
from controller.trainingjobs.decide import (
    Action,
    CreatePods,
    CreateService,
    DeletePods,
    DeleteTrainingJob,
    ProvisionClaims,
    WithdrawClaims,
    WriteJobStatus,
    decide,
)
from controller.trainingjobs.keys import ReplicaClaimKey, TrainingJobKey
from controller.trainingjobs.objects import JobReplica, template_of
from controller.trainingjobs.observe import FailureKey, TrainingJobObserver
from controller.trainingjobs.outcome import failed_pods
from controller.trainingjobs.report import status_of
from controller.trainingjobs.requested_claims import RequestedClaims
from controller.trainingjobs.view import TrainingJobView
from shared.api.training_job import TrainingJob
from shared.kube.errors import KubeError, NotAdmitted, NotFound, Refused
from shared.kube.objects import Key, Meta

_AT_A_TIME = 10  # concurrent requests of one reconcile
_log = structlog.get_logger()


@dataclass(slots=True)
class TrainingJobReconciler:
    """Drives a TrainingJob to its desired state."""

    observer: TrainingJobObserver
    actor: TrainingJobActor
    requested: RequestedClaims
    enqueue: Callable[[TrainingJobKey], None]
    _failed: dict[TrainingJobKey, set[FailureKey]] = field(default_factory=dict, init=False)

    async def stop(self) -> None:
        """Drop the state of this leadership."""
        self.observer.failures.clear()
        self.observer.recent.clear()
        self.requested.clear()
        self._failed.clear()

    async def reconcile(self, key: TrainingJobKey) -> float | None:
        """Reconcile a job; return the delay in seconds until the next run, or None."""
        view = self.observer.view(key)
        if view is None:
            self.requested.withdraw(key, lambda _: True)
            for failure in self._failed.pop(key, ()):
                self.observer.failures.forget(failure)
            return None
        actions = decide(view, self.actor.now())
        for action in actions:
            await self._apply(key, view, action)
        return min((action.after_s for action in actions if isinstance(action, Requeue)), default=None)

    async def _apply(self, key: TrainingJobKey, view: TrainingJobView, action: Action) -> None:
        match action:
            case CreateService():
                await self._create_service(key, view.job)
            case ProvisionClaims(replica, templates, number):
                order = ProvisionOrder(view.job.metadata.creation_timestamp, key.name, number)
                for template in templates:
                    self._request(key, view.job, replica, template, order)
            case WithdrawClaims(kept):
                self.requested.withdraw(key, lambda replica: replica not in kept)
            case CreatePods(role, replicas):
                await self._create_pods(key, view, role, replicas)
            case DeletePods(seen):
                await self._delete_pods(view.job, seen)
            case DeleteTrainingJob(seen):
                _log.info("training_job_expired", training_job=f"{key.namespace}/{key.name}")
                await self.actor.delete_job(seen)
            case WriteJobStatus():
                await self._write_status(key, view, action)
            case Requeue():
                pass  # done by the caller
            case _:
                assert_never(action)

    async def _write_status(self, key: TrainingJobKey, view: TrainingJobView, write: WriteJobStatus) -> None:
        if write.replace or (write.outcome is not None and not write.outcome.succeeded):
            await self.actor.require_pods(view.job, tuple(failed_pods(view)))
        current = replace(view, queue=self.requested.state(key))  # includes the requests made just now
        await self.actor.write_status(view.job, status_of(current, write, self.actor.now()))

    async def _create_service(self, key: TrainingJobKey, job: TrainingJob) -> None:
        try:
            await self.actor.create_service(job)
        except (Refused, NotFound) as error:
            self._note(key, (job.metadata.uid, ""), _as_refusal(error))
            return
        self.observer.failures.forget((job.metadata.uid, ""))
        self.observer.recent.note(("Service", job.metadata.uid))

    async def _create_pods(
        self, key: TrainingJobKey, view: TrainingJobView, role: str, replicas: Sequence[JobReplica]
    ) -> None:
        """Create one pod, then the others ten at a time; after a refusal, create no more pods of the role."""
        uid = view.job.metadata.uid
        if self.observer.failures.of((uid, "")) is not None:
            return
        for batch in (replicas[:1], *(replicas[n : n + _AT_A_TIME] for n in range(1, len(replicas), _AT_A_TIME))):
            created = [self._create_pod(key, view, replica) for replica in batch]
            if not all(await asyncio.gather(*created)):
                return
        self.observer.failures.forget((uid, role))

    async def _create_pod(self, key: TrainingJobKey, view: TrainingJobView, replica: JobReplica) -> bool:
        """Create a pod; return False if it was refused for a reason that applies to its whole role."""
        name, uid = replica.pod(view.job.metadata), view.job.metadata.uid
        try:
            await self.actor.create_pod(view.job, replica, view.templates[replica.role])
        except RefusedName as error:
            self._note(key, (uid, name), error)
            return True
        except (Refused, NotFound) as error:
            self._note(key, (uid, replica.role), _as_refusal(error))
            return False
        self.observer.recent.note(Key(key.namespace, name))
        _log.info("training_pod_created", namespace=key.namespace, pod=name)
        return True

    async def _delete_pods(self, job: TrainingJob, seen: Sequence[Meta]) -> None:
        """Delete the pods that were read, unless the job has changed and may want them."""
        await self.actor.require_current(job)
        for start in range(0, len(seen), _AT_A_TIME):
            await asyncio.gather(*(self.actor.delete_pod(meta) for meta in seen[start : start + _AT_A_TIME]))

    def _request(
        self,
        key: TrainingJobKey,
        job: TrainingJob,
        replica: JobReplica,
        template: VolumeClaimTemplate,
        order: ProvisionOrder,
    ) -> None:
        name = claim_name(template.name, replica.pod(job.metadata))
        wanted = ReplicaClaimKey(key.namespace, name, job.metadata.uid)
        if self.requested.is_requested(key, wanted):
            return
        request = ProvisionRequest(
            wanted,
            key.flow,
            partial(self._create_claim, key, wanted, replica),
            on_failure=lambda error: self._claim_failed(key, wanted, replica, error),
            on_created=lambda: self._claim_created(key, wanted, replica),
            order=order,
        )
        self.requested.request(key, wanted, replica, request)

    async def _create_claim(self, key: TrainingJobKey, wanted: ReplicaClaimKey, replica: JobReplica) -> None:
        """Create a claim as its job describes it now, which may have changed in the queue; none if the job is gone."""
        job = self.observer.jobs.job(key)
        if job is None or job.metadata.uid != wanted.job_uid:
            return
        if (template := template_of(job, replica, wanted.claim)) is not None:
            await self.actor.create_claim(job, replica, template)

    def _claim_created(self, key: TrainingJobKey, wanted: ReplicaClaimKey, replica: JobReplica) -> None:
        self.requested.done(key, wanted)
        self.observer.recent.note(wanted)
        self.observer.failures.forget((wanted.job_uid, replica.role))
        _log.info("replica_claim_created", namespace=wanted.namespace, claim=wanted.claim)

    def _claim_failed(
        self, key: TrainingJobKey, wanted: ReplicaClaimKey, replica: JobReplica, error: KubeError
    ) -> None:
        """After a refusal, hold back the role's other claims, which would be refused, too."""
        _log.warning("replica_claim_not_created", namespace=wanted.namespace, claim=wanted.claim, error=str(error))
        self._note(key, (wanted.job_uid, replica.role), error)
        if not error.retryable:
            self.requested.withdraw(key, lambda other: other.role == replica.role)
        self.enqueue(key)

    def _note(self, key: TrainingJobKey, failure: FailureKey, error: KubeError) -> None:
        _log.warning("training_job_object_refused", training_job=f"{key.namespace}/{key.name}", error=str(error))
        self.observer.failures.note(failure, error)
        self._failed.setdefault(key, set()).add(failure)


def _as_refusal(error: Refused | NotFound) -> KubeError:
    """Return an error that is not retryable, because no queue repeats the creation of a pod or a Service."""
    return Refused(str(error), error.code) if isinstance(error, NotAdmitted) else error
