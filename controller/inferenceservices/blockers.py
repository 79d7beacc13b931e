"""What prevents a service's pods from being created or from starting. No input or output, no clock."""

from collections.abc import Iterator
from dataclasses import dataclass

from controller.claims.contention import CLAIM_IN_USE, Wait
from controller.inferenceservices.deployment import SERVICE_LABEL, Deployment
from controller.inferenceservices.view import ServiceView
from controller.jobs.observed_jobs import ClaimPod
from shared.api.meta import condition_of

_PASSING = ("", "ContainerCreating", "PodInitializing")


@dataclass(frozen=True, slots=True)
class Blocker:
    """A stable reason and a message."""

    reason: str
    message: str


def blocker_of(view: ServiceView, deployment: Deployment) -> Blocker | None:
    """Return what blocks missing pods: the first problem found, most certain first."""
    return next(_blockers(view, deployment), None)


def _blockers(view: ServiceView, deployment: Deployment) -> Iterator[Blocker]:
    conditions = deployment.status.conditions
    failure, progress = condition_of(conditions, "ReplicaFailure"), condition_of(conditions, "Progressing")
    if failure is not None and failure.status == "True":
        yield Blocker("ReplicaFailure", f"a pod could not be created: {failure.message}")
    for wait in view.waits:
        yield Blocker(CLAIM_IN_USE, _with_remedy(wait, view.service.metadata.name))
    for pod in (p for p in view.pods if p.metadata.deletion_timestamp is None):
        yield from _of_pod(pod)
    if progress is not None and deployment.is_stalled:
        yield Blocker("Stalled", progress.message)


def _with_remedy(wait: Wait, service: str) -> str:
    if wait.holder.metadata.labels.get(SERVICE_LABEL) == service:
        remedy = "set spec.strategy to {type: Recreate} with one replica, or put the model on another claim"
        return f"{wait.message}; {remedy}"
    return f"{wait.message}; it starts when that pod ends"


def _of_pod(pod: ClaimPod) -> Iterator[Blocker]:
    about, scheduled = f"pod {pod.metadata.name}", condition_of(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        yield Blocker("Unschedulable", f"{about} cannot be scheduled: {scheduled.message or scheduled.reason}")
    for waiting in (status.state.waiting for status in pod.status.container_statuses):
        if waiting is not None and waiting.reason not in _PASSING:
            yield Blocker("ContainerNotStarted", f"{about}: {waiting.reason}: {waiting.message}".rstrip(": "))
