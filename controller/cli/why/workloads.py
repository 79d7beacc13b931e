"""Explains why a workload has no pods with its model. No input or output, no clock."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from controller.admission.model_injector.annotations import INJECT
from controller.admission.pods.pod_annotations import NOT_CACHED, TRIGGERS
from controller.cli.why.findings import Diagnosis, Finding, Severity, fact, ordered, some, stop, wait
from controller.cli.why.injected_models import injected_model_findings
from controller.cli.why.kinds import ObservedPod, Workload, WorkloadEvent
from controller.cli.why.models import has_failed, summary_of, title_of
from controller.cli.why.nodes import leader_findings
from controller.cli.why.pods import why_pod
from controller.cli.why.requested_models import RequestedModel, misplaced, requested_models
from controller.cli.why.view import ClusterView, PodSurroundings
from controller.inferenceservices.deployment import is_controlled_by
from shared.api.core import ObservedCondition
from shared.api.meta import holds
from shared.devices.annotation import ANNOTATION as DEVICES

_REVISION = "deployment.kubernetes.io/revision"
_DENIED = "denied the request: "
_MAX_PODS = 3  # shown individually
_FIX_REFUSAL = "fix the cause; the next pod is created automatically within minutes"


@dataclass(frozen=True, slots=True)
class ObservedWorkload:
    """A workload, the newest ReplicaSet of a Deployment, its live pods, and warnings about the first two.

    `around` has, by uid, the surroundings of the pods that are explained one by one.
    """

    kind: str
    body: Workload
    newest: Workload | None = None
    pods: tuple[ObservedPod, ...] = ()
    warnings: tuple[WorkloadEvent, ...] = ()
    around: Mapping[str, PodSurroundings] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Kind, namespace and name."""
        meta = self.body.metadata
        return f"{self.kind} {meta.namespace}/{meta.name}"


def why_workload(found: ObservedWorkload, cluster: ClusterView) -> Diagnosis:
    """Return the diagnosis of a workload."""
    meta = found.body.metadata
    requested = list(requested_models(found.body.spec.template.metadata.annotations, meta.namespace, cluster))
    findings = [*leader_findings(cluster), *_requests(found, requested), *_status_findings(found), *_refusals(found)]
    findings += pod_findings(found.pods, found.around, cluster)
    return Diagnosis(
        found.title, ordered(findings), failed=any(has_failed(model) for one in requested for model in one.found)
    )


def _requests(found: ObservedWorkload, requested: list[RequestedModel]) -> Iterator[Finding]:
    """Yield what the pods request, and the state of the models."""
    template, own = found.body.spec.template.metadata.annotations, found.body.metadata.annotations
    if lost := misplaced(own, template):
        message = f"the {found.kind} itself has {some(lost)}, which it does not pass to pods"
        yield stop("template", "AnnotationMisplaced", message, "move that to spec.template.metadata.annotations")
    elif not any(key in template for key in (*TRIGGERS, INJECT, DEVICES)):
        message = f"its pods have none of {some((*TRIGGERS, INJECT))}, so Larder ignores them"
        yield fact("template", "AsksForNoModel", message)
    for one in requested:
        if problem := one.problem(found.body.metadata.namespace):
            yield problem
        for model in one.found:
            to_finding = fact if holds(model.status.conditions, "Ready") else stop if has_failed(model) else wait
            yield to_finding(title_of(model), "Model", summary_of(model))


def _status_findings(found: ObservedWorkload) -> Iterator[Finding]:
    """Yield how many of the wanted pods exist, and what the workload's controller reports."""
    spec, status = found.body.spec, found.body.status
    if spec.paused or spec.suspend:
        field = "spec.paused" if spec.paused else "spec.suspend"
        yield stop("rollout", "Paused" if spec.paused else "Suspended", f"{field} is true", f"set {field} to false")
    if found.kind == "Job":
        message = f"{status.active} active, {status.succeeded} succeeded, {status.failed} failed"
        done = _is_complete(found)
        yield (fact if done else wait)("pods", "Complete" if done else "Running", message)
    elif spec.replicas == 0:
        yield fact("pods", "ScaledToZero", "spec.replicas is 0, so no pods are wanted")
    else:
        to_finding, reason = (wait, "NotReady") if status.ready_replicas < spec.replicas else (fact, "Ready")
        yield to_finding(
            "pods", reason, f"{status.ready_replicas} of {spec.replicas} are ready, {status.replicas} exist"
        )
    for condition in _stalled_conditions(found.body):
        yield stop("rollout", condition.reason or condition.type, condition.message, "see the pods below")


def _is_complete(found: ObservedWorkload) -> bool:
    return holds(found.body.status.conditions, "Complete")


def _stalled_conditions(workload: Workload) -> Iterator[ObservedCondition]:
    """Yield the conditions that report no progress; rejected pods are reported separately."""
    for condition in workload.status.conditions:
        failed = condition.type == "Failed" and condition.status == "True"
        if failed or (condition.type == "Progressing" and condition.status == "False"):
            yield condition


def _refusals(found: ObservedWorkload) -> Iterator[Finding]:
    """Yield why pods cannot be created, each message once: conditions are current, an Event may be outdated."""
    holds = [
        condition.message
        for owner in (found.newest, found.body)
        for condition in (owner.status.conditions if owner else ())
        if condition.type == "ReplicaFailure" and condition.status == "True"
    ]
    past = [event.message for event in found.warnings if event.reason == "FailedCreate"] if _lacks_pods(found) else []
    reported: set[str] = set()
    for text in holds or past[:1]:
        _, denied, denial = text.partition(_DENIED)
        message = denial or text
        if message in reported:
            continue
        reported.add(message)
        about, reason = ("admission", "PodRefused") if denied else ("API server", "FailedCreate")
        yield stop(about, reason, message, _FIX_REFUSAL)
    others = (event for event in found.warnings if event.reason != "FailedCreate") if _lacks_pods(found) else ()
    for event in list(others)[:_MAX_PODS]:
        yield wait("event", event.reason, event.message)


def _lacks_pods(found: ObservedWorkload) -> bool:
    if found.kind == "Job":
        return not found.pods and not _is_complete(found) and not found.body.spec.suspend
    return len(found.pods) < found.body.spec.replicas


def pod_findings(
    pods: Sequence[ObservedPod], around: Mapping[str, PodSurroundings], cluster: ClusterView
) -> Iterator[Finding]:
    """Yield what blocks pods that are not ready, and why a running one has no cached model."""
    unready, shown = _unready(pods), blocked_pods(pods)
    for pod in shown:
        for finding in why_pod(pod, cluster, around.get(pod.metadata.uid, PodSurroundings())).findings:
            if finding.about not in ("controller", "owner"):
                yield replace(finding, about=f"pod/{pod.metadata.name}: {finding.about}")
    if len(unready) > len(shown):
        message = f"{len(unready) - len(shown)} more are not ready; `larder why pod/NAME` explains each"
        yield fact("pods", "More", message)
    for pod in [p for p in pods if p not in unready and NOT_CACHED in p.metadata.annotations][:1]:
        yield stop(f"pod/{pod.metadata.name}: admission", "NotCached", pod.metadata.annotations[NOT_CACHED])
    for pod in [p for p in pods if p not in unready]:
        for finding in injected_model_findings(pod, cluster.release_namespace):
            if finding.severity is Severity.STOP:
                yield replace(finding, about=f"pod/{pod.metadata.name}: {finding.about}")
                return


def blocked_pods(pods: Sequence[ObservedPod]) -> list[ObservedPod]:
    """Return the pods that are explained one by one."""
    return _unready(pods)[:_MAX_PODS]


def _unready(pods: Sequence[ObservedPod]) -> list[ObservedPod]:
    return [pod for pod in pods if not pod.ready and pod.status.phase != "Succeeded"]


def workload_of(
    kind: str,
    body: Workload,
    replica_sets: Iterable[Workload],
    pods: Iterable[ObservedPod],
    warnings: Iterable[WorkloadEvent],
) -> ObservedWorkload:
    """Return a workload with the objects of its namespace that belong to it."""
    owned = [rs for rs in replica_sets if is_controlled_by(rs.metadata, body.metadata.uid)]
    newest = max(owned, key=_revision, default=None)
    uids = {body.metadata.uid, *(rs.metadata.uid for rs in owned)}
    own = (pod for pod in pods if any(is_controlled_by(pod.metadata, uid) for uid in uids))
    about = (body.metadata.uid, newest.metadata.uid if newest else "")
    return ObservedWorkload(
        kind,
        body,
        newest,
        tuple(sorted(own, key=lambda pod: pod.metadata.name)),
        tuple(event for event in warnings if event.involved_object.uid in about),
    )


def _revision(replica_set: Workload) -> int:
    """Return the revision of a ReplicaSet in its Deployment; the highest is the newest."""
    number = replica_set.metadata.annotations.get(_REVISION, "")
    return int(number) if number.isascii() and number.isdecimal() else 0
