"""Explains why a workload has no pods with its model. No input or output, no clock."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from controller.admission.pod_annotations import BASE_MODEL, ENABLE_CACHE, MODEL_KIND, NODE_GROUP
from controller.cli.why.findings import Diagnosis, Finding, fact, ordered, some, stop, wait
from controller.cli.why.models import has_failed, summary_of, title_of
from controller.cli.why.nodes import leader_findings
from controller.cli.why.pods import why_pod
from controller.cli.why.view import ClusterView, DeclaredModel, ObservedPod, Workload, WorkloadEvent
from shared.api.core import ObservedCondition
from shared.api.meta import holds

_ASKS = (BASE_MODEL, MODEL_KIND, ENABLE_CACHE, NODE_GROUP)
_DENIED = "denied the request: "
_MOST_PODS = 3  # shown individually
_FIX_REFUSAL = "fix the cause; the next pod is created automatically within minutes"


@dataclass(frozen=True, slots=True)
class ObservedWorkload:
    """A workload, the newest ReplicaSet of a Deployment, its live pods, and warnings about either, newest first."""

    kind: str
    body: Workload
    newest: Workload | None = None
    pods: tuple[ObservedPod, ...] = ()
    warnings: tuple[WorkloadEvent, ...] = ()

    @property
    def title(self) -> str:
        """Kind, namespace and name."""
        meta = self.body.metadata
        return f"{self.kind} {meta.namespace}/{meta.name}"


def why_workload(found: ObservedWorkload, cluster: ClusterView) -> Diagnosis:
    """Return the diagnosis of a workload."""
    models = _models(found, cluster)
    findings = [*leader_findings(cluster), *_asks(found, models, cluster), *_status_findings(found), *_refusals(found)]
    findings += _pods(found, cluster)
    return Diagnosis(found.title, ordered(findings), failed=any(has_failed(model) for model in models))


def _models(found: ObservedWorkload, cluster: ClusterView) -> list[DeclaredModel]:
    """Return the base model that the pods will get: the namespace's own, else the cluster's."""
    asked = found.body.spec.template.metadata.annotations
    name, namespace = asked.get(BASE_MODEL, ""), found.body.metadata.namespace
    kinds = [("BaseModel", namespace), ("ClusterBaseModel", "")]
    wanted = [(kind, home) for kind, home in kinds if asked.get(MODEL_KIND, kind) == kind]
    known = (cluster.model(kind, home, name) for kind, home in wanted)
    return [model for model in known if model is not None][:1] if name else []


def _asks(found: ObservedWorkload, models: list[DeclaredModel], cluster: ClusterView) -> Iterator[Finding]:
    """Yield what the pods ask for, and the state of the model."""
    asked, own = found.body.spec.template.metadata.annotations, found.body.metadata.annotations
    misplaced = [key for key in _ASKS if key in own and key not in asked]
    if misplaced:
        message = f"{some(misplaced)} is on the {found.kind} itself, which does not pass it to pods"
        yield stop("template", "AnnotationMisplaced", message, "move it to spec.template.metadata.annotations")
    elif not any(key in asked for key in (BASE_MODEL, ENABLE_CACHE)):
        message = f"its pods have neither {BASE_MODEL} nor {ENABLE_CACHE}, so Larder ignores them"
        yield fact("template", "AsksForNoModel", message)
    if asked.get(BASE_MODEL) and not models and "clusterbasemodels" not in cluster.hidden:
        message = f"no model {asked[BASE_MODEL]!r} is visible from namespace {found.body.metadata.namespace}"
        yield stop("template", "ModelNotFound", message, f"create it, or correct {BASE_MODEL}")
    for model in models:
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
    for event in list(others)[:_MOST_PODS]:
        yield wait("event", event.reason, event.message)


def _lacks_pods(found: ObservedWorkload) -> bool:
    if found.kind == "Job":
        return not found.pods and not _is_complete(found) and not found.body.spec.suspend
    return len(found.pods) < found.body.spec.replicas


def _pods(found: ObservedWorkload, cluster: ClusterView) -> Iterator[Finding]:
    """Yield what blocks the pods that are not ready; only the first few by name."""
    unready = [pod for pod in found.pods if not pod.ready and pod.status.phase != "Succeeded"]
    for pod in unready[:_MOST_PODS]:
        for finding in why_pod(pod, cluster).findings:
            if finding.about != "controller":
                yield replace(finding, about=f"pod/{pod.metadata.name}: {finding.about}")
    if len(unready) > _MOST_PODS:
        message = f"{len(unready) - _MOST_PODS} more are not ready; `larder why pod/NAME` explains each"
        yield fact("pods", "More", message)
