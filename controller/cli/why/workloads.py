"""Why a Deployment, ReplicaSet, StatefulSet or Job has no pods with its model. No input or output, no clock."""

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
_REFUSED_DO = "mend what the message says; the next pod comes by itself, within minutes"


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


def why_workload(found: ObservedWorkload, seen: ClusterView) -> Diagnosis:
    """Return what keeps a workload from having pods with their model."""
    models = _models(found, seen)
    findings = [*leader_findings(seen), *_asks(found, models, seen), *_stands(found), *_refusals(found)]
    findings += _pods(found, seen)
    return Diagnosis(found.title, ordered(findings), failed=any(has_failed(model) for model in models))


def _models(found: ObservedWorkload, seen: ClusterView) -> list[DeclaredModel]:
    """Return the base model that the pods will get: the namespace's own, else the cluster's."""
    asked = found.body.spec.template.metadata.annotations
    name, namespace = asked.get(BASE_MODEL, ""), found.body.metadata.namespace
    kinds = [("BaseModel", namespace), ("ClusterBaseModel", "")]
    wanted = [(kind, home) for kind, home in kinds if asked.get(MODEL_KIND, kind) == kind]
    known = (seen.model(kind, home, name) for kind, home in wanted)
    return [model for model in known if model is not None][:1] if name else []


def _asks(found: ObservedWorkload, models: list[DeclaredModel], seen: ClusterView) -> Iterator[Finding]:
    """Yield what the pods ask for, and the state of the model."""
    asked, own = found.body.spec.template.metadata.annotations, found.body.metadata.annotations
    misplaced = [key for key in _ASKS if key in own and key not in asked]
    if misplaced:
        words = f"{some(misplaced)} stands on the {found.kind} itself, where no pod gets it"
        yield stop("template", "AnnotationMisplaced", words, "move it to spec.template.metadata.annotations")
    elif not any(key in asked for key in (BASE_MODEL, ENABLE_CACHE)):
        words = f"its pods have neither {BASE_MODEL} nor {ENABLE_CACHE}, so Larder leaves them alone"
        yield fact("template", "AsksForNoModel", words)
    if asked.get(BASE_MODEL) and not models and "clusterbasemodels" not in seen.hidden:
        words = f"no model {asked[BASE_MODEL]!r} can be seen from namespace {found.body.metadata.namespace}"
        yield stop("template", "ModelNotFound", words, f"create it, or correct {BASE_MODEL}")
    for model in models:
        tell = fact if holds(model.status.conditions, "Ready") else stop if has_failed(model) else wait
        yield tell(title_of(model), "Model", summary_of(model))


def _stands(found: ObservedWorkload) -> Iterator[Finding]:
    """Yield how many of the wanted pods exist, and what the workload's controller reports."""
    spec, status = found.body.spec, found.body.status
    if spec.paused or spec.suspend:
        field = "spec.paused" if spec.paused else "spec.suspend"
        yield stop("rollout", "Paused" if spec.paused else "Suspended", f"{field} is true", f"set {field} to false")
    if found.kind == "Job":
        words = f"{status.active} active, {status.succeeded} succeeded, {status.failed} failed"
        done = _is_complete(found)
        yield (fact if done else wait)("pods", "Complete" if done else "Running", words)
    elif spec.replicas == 0:
        yield fact("pods", "ScaledToZero", "spec.replicas is 0: no pod is wanted")
    else:
        tell, reason = (wait, "NotReady") if status.ready_replicas < spec.replicas else (fact, "Ready")
        yield tell("pods", reason, f"{status.ready_replicas} of {spec.replicas} are ready, {status.replicas} are there")
    for condition in _troubles(found.body):
        yield stop("rollout", condition.reason or condition.type, condition.message, "see the pods below")


def _is_complete(found: ObservedWorkload) -> bool:
    return holds(found.body.status.conditions, "Complete")


def _troubles(workload: Workload) -> Iterator[ObservedCondition]:
    """Yield the conditions that report no progress; rejected pods are reported separately."""
    for condition in workload.status.conditions:
        failed = condition.type == "Failed" and condition.status == "True"
        if failed or (condition.type == "Progressing" and condition.status == "False"):
            yield condition


def _refusals(found: ObservedWorkload) -> Iterator[Finding]:
    """Yield why pods cannot be created, each message once: conditions hold now, an Event may be outdated."""
    holds = [
        condition.message
        for owner in (found.newest, found.body)
        for condition in (owner.status.conditions if owner else ())
        if condition.type == "ReplicaFailure" and condition.status == "True"
    ]
    past = [event.message for event in found.warnings if event.reason == "FailedCreate"] if _lacks_pods(found) else []
    told: set[str] = set()
    for message in holds or past[:1]:
        _, denied, words = message.partition(_DENIED)
        if (words or message) in told:
            continue
        told.add(words or message)
        about, reason = ("admission", "PodRefused") if denied else ("API server", "FailedCreate")
        yield stop(about, reason, words or message, _REFUSED_DO)
    others = (event for event in found.warnings if event.reason != "FailedCreate") if _lacks_pods(found) else ()
    for event in list(others)[:_MOST_PODS]:
        yield wait("event", event.reason, event.message)


def _lacks_pods(found: ObservedWorkload) -> bool:
    if found.kind == "Job":
        return not found.pods and not _is_complete(found) and not found.body.spec.suspend
    return len(found.pods) < found.body.spec.replicas


def _pods(found: ObservedWorkload, seen: ClusterView) -> Iterator[Finding]:
    """Yield what blocks the pods that are not ready; of several the first by name."""
    unready = [pod for pod in found.pods if not pod.ready and pod.status.phase != "Succeeded"]
    for pod in unready[:_MOST_PODS]:
        for finding in why_pod(pod, seen).findings:
            if finding.about != "controller":
                yield replace(finding, about=f"pod/{pod.metadata.name}: {finding.about}")
    if len(unready) > _MOST_PODS:
        words = f"{len(unready) - _MOST_PODS} more are not ready; `larder why pod/NAME` tells of each"
        yield fact("pods", "More", words)
