"""Explains why a pod does not have its model, or does not run. No input or output, no clock."""

from collections.abc import Iterable, Iterator, Mapping

from controller.admission.model_injector.annotations import INJECT
from controller.admission.pods.pod_annotations import (
    BASE_MODEL,
    ENABLE_CACHE,
    MODELS,
    NAMED_MODELS,
    NOT_CACHED,
    TRIGGERS,
)
from controller.cli.why.claims import REPORTED, claim_findings, has_template_claims, template_claim_findings
from controller.cli.why.device_request_findings import requested_device_findings, wants_devices
from controller.cli.why.findings import Diagnosis, Finding, Severity, fact, ordered, some, stop, wait
from controller.cli.why.injected_models import injected_model_findings
from controller.cli.why.kinds import ObservedNode, ObservedPod, Taint, Toleration
from controller.cli.why.models import summary_of, title_of
from controller.cli.why.nodes import agent_findings
from controller.cli.why.resource_claims import requests_resource_claims, resource_claim_findings
from controller.cli.why.view import ClusterView, PodSurroundings
from controller.cli.why.waits import gate_findings, may_wait_on_node, on_node_findings, preferred_findings
from controller.placement.selectors import matches_affinity
from shared.api.meta import condition_of, holds
from shared.api.model_node import EVICTED
from shared.names import READY_PREFIX, SNAPSHOT_PREFIX, ready_label, snapshot_label

_MODELS = frozenset(("basemodels", "clusterbasemodels", "clustermodelcaches"))
_RUNS = ("Running", "Succeeded")
_STARTED = ("Running", "Succeeded", "Failed")
_MAX_NODES = 20  # of those that do not accept a pod
_LOGS = "run `kubectl logs` and `kubectl describe` for the pod"


_ALONE = PodSurroundings()


def why_pod(pod: ObservedPod, cluster: ClusterView, around: PodSurroundings = _ALONE) -> Diagnosis:
    """Return the diagnosis of a pod."""
    annotations = pod.metadata.annotations
    injected = _injected(annotations)
    of_models = list(injected_model_findings(pod, cluster.release_namespace))
    has_templates, of_scheduler = has_template_claims(pod), wants_devices(pod)
    requests_anything = bool(of_models) or has_templates or of_scheduler or requests_resource_claims(around.devices)
    findings = [*of_models, *_injection(pod, injected, cluster, requests_anything=requests_anything)]
    for identity, revision in injected:
        findings += _model(identity, revision, cluster)
    snapshots = [(identity, revision) for identity, revision in injected if revision]
    if not pod.spec.node_name and (injected or has_templates or of_scheduler):
        findings += gate_findings(pod)
    if injected and not pod.spec.node_name:
        findings += _placement(pod, injected, cluster)
    elif pod.status.phase not in _STARTED:
        findings += on_node_findings(pod, snapshots, cluster)
    if pod.status.phase not in _STARTED:
        findings += [*claim_findings(pod, around), *template_claim_findings(pod, around)]
        findings += resource_claim_findings(pod, around.devices, cluster)
    findings += requested_device_findings(pod, around.scheduling, cluster)
    findings += [*_status_findings(pod, cluster), *_events(pod, around)]
    if around.owners:
        findings.append(fact("owner", "Owned", f"it belongs to {' of '.join(around.owners)}"))
    return Diagnosis(f"pod {pod.metadata.namespace}/{pod.metadata.name}", ordered(findings))


def _injected(annotations: Mapping[str, str]) -> list[tuple[str, str]]:
    parts = (part.strip().partition("@") for part in annotations.get(MODELS, "").split(","))
    return [(identity, revision) for identity, _, revision in parts if identity]


def _injection(
    pod: ObservedPod, injected: list[tuple[str, str]], cluster: ClusterView, *, requests_anything: bool
) -> Iterator[Finding]:
    annotations = pod.metadata.annotations
    requested = [key for key in TRIGGERS if key in annotations]
    if injected:
        yield fact(
            "admission", "Injected", f"the pod was admitted with {some(f'{i}@{r}' if r else i for i, r in injected)}"
        )
    elif NOT_CACHED in annotations:
        advice = "fix the cause and recreate the pod; until then it downloads its own copy"
        yield stop("admission", "NotCached", annotations[NOT_CACHED], advice)
    elif not requested and requests_anything:
        return
    elif not requested:
        yield stop(
            "admission", "AsksForNoModel",
            f"the pod has none of the annotations {NAMED_MODELS}, {BASE_MODEL}, {ENABLE_CACHE} and {INJECT}",
            "in a Deployment or Job, put the annotation into the pod template",
        )  # fmt: skip
    elif requested == [ENABLE_CACHE] and annotations[ENABLE_CACHE] == "false":
        yield fact("admission", "NotWanted", f"{ENABLE_CACHE} is false, so the pod keeps its own download")
    elif cluster.excludes(pod.metadata.namespace):
        message = f"admission skips pods in namespace {pod.metadata.namespace}"
        yield stop("admission", "ExcludedNamespace", message, "create it in another namespace")
    else:
        yield stop(
            "admission", "NotInjected", f"the pod requests a model ({some(requested)}) but got none: it was created "
            "before Larder was installed, or while admission did not answer and failurePolicy was Ignore",
            "recreate the pod; check `kubectl get mutatingwebhookconfiguration larder`",
        )  # fmt: skip


def _model(identity: str, revision: str, cluster: ClusterView) -> Iterator[Finding]:
    declared = cluster.of_id(identity)
    if not declared and not cluster.hidden.keys() & _MODELS:
        yield wait(identity, "NoObject", "no object declares this model any more; the pod keeps its files")
    for found in declared:
        ready = holds(found.status.conditions, "Ready")
        to_finding = fact if ready else wait
        yield to_finding(title_of(found), "Model", summary_of(found))
        now = found.demand.serving
        if revision and now and now != revision:
            message = f"the pod was admitted with revision {revision}; new pods get {now}"
            yield fact(title_of(found), "OlderRevision", message)


def _placement(pod: ObservedPod, injected: list[tuple[str, str]], cluster: ClusterView) -> Iterator[Finding]:
    if "nodes" in cluster.hidden:
        yield fact("labels", "NotShown", "you may not list nodes, so it is unknown which of them have the model")
        return
    if may_wait_on_node(pod):
        yield from preferred_findings([key for key in injected if key[1]], cluster)
        yield from _accepting(pod, cluster)
        return
    selector, about = pod.spec.node_selector, "labels"
    wanted = {key: value for key, value in selector.items() if key.startswith((READY_PREFIX, SNAPSHOT_PREFIX))}
    for identity, revision in injected:
        keys = {ready_label(identity), snapshot_label(identity, revision)} if revision else set()
        if gone := sorted(keys - selector.keys()):
            yield stop(about, "SelectorRemoved", f"the pod no longer selects {some(gone)}", "recreate the pod")
    for key, value in sorted(wanted.items()):
        having = [n.metadata.name for n in cluster.nodes if n.metadata.labels.get(key) == value]
        to_finding = fact if having else stop
        yield to_finding(about, "Nodes" if having else "NoNodeHasLabel", f"{key}: {some(having) or 'no node has it'}")
    candidates = [n for n in cluster.nodes if all(n.metadata.labels.get(k) == v for k, v in wanted.items())]
    if not candidates:
        yield from _pending_labels(injected, cluster)
        return
    others = {k: v for k, v in selector.items() if k not in wanted}
    for node in candidates:
        if barriers := list(_barriers(pod, others, node)):
            yield stop(f"node/{node.metadata.name}", "DoesNotFit", "the node has the model, but " + "; ".join(barriers))
        else:
            yield fact(f"node/{node.metadata.name}", "Fits", "the node has the model and accepts the pod")


def _accepting(pod: ObservedPod, cluster: ClusterView) -> Iterator[Finding]:
    """Yield the nodes that accept a pod which needs no label; if there are none, yield the obstacle on each."""
    found = {n.metadata.name: list(_barriers(pod, pod.spec.node_selector, n)) for n in cluster.nodes}
    if fitting := sorted(name for name, barriers in found.items() if not barriers):
        yield fact("nodes", "Fits", f"accepted by {some(fitting)}")
        return
    for name, barriers in sorted(found.items())[:_MAX_NODES]:
        yield stop(f"node/{name}", "DoesNotFit", "; ".join(barriers))


def _pending_labels(injected: list[tuple[str, str]], cluster: ClusterView) -> Iterator[Finding]:
    """Yield what the target nodes report about the models."""
    for identity, _ in injected:
        for found in cluster.of_id(identity):
            targets = [n for n in cluster.nodes if cluster.is_target(found.demand, n)]
            advice = f"see `larder why {_argument(found.demand.kind, found.demand.namespace, found.demand.name)}`"
            if not targets:
                yield stop(title_of(found), "NoNodes", "no node should hold it, so no node will get the label", advice)
            for node in targets:
                state = found.node_states.get(node.metadata.name)
                told = (state.phase, state.reason, state.message) if state else ("not reported yet",)
                message = ": ".join(filter(None, told))
                to_finding = stop if state and state.phase in ("Failed", EVICTED) else wait
                yield to_finding(f"{identity} on node/{node.metadata.name}", "LabelPending", message, advice)
                yield from (f for f in agent_findings(node, cluster) if f.severity is Severity.STOP)


def _argument(kind: str, namespace: str, name: str) -> str:
    return f"{kind.lower()}/{namespace}/{name}" if namespace else f"{kind.lower()}/{name}"


def _barriers(pod: ObservedPod, selector: Mapping[str, str], node: ObservedNode) -> Iterator[str]:
    labels = node.metadata.labels
    if not node.status.ready:
        yield "is not Ready"
    if node.spec.unschedulable:
        yield "is cordoned"
    for key, value in sorted(selector.items()):
        if labels.get(key) != value:
            yield f"lacks {key}={value}, which the pod selects"
    if not matches_affinity(pod.spec.affinity.node_affinity, node.metadata.name, labels):
        yield "does not match the pod's node affinity"
    for taint in node.spec.taints:
        if taint.effect != "PreferNoSchedule" and not _tolerated(taint, pod.spec.tolerations):
            yield f"has the taint {taint.key}:{taint.effect}, which the pod does not tolerate"


def _tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(
        t.effect in ("", taint.effect)
        and (t.key == taint.key or (not t.key and t.operator == "Exists"))
        and (t.operator == "Exists" or t.value == taint.value)
        for t in tolerations
    )


def _container_failures(pod: ObservedPod) -> list[Finding]:
    """Return why containers do not run, as reported by kubelet."""
    states = [status.state for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)]
    waits = [state.waiting for state in states if state.waiting is not None]
    named = [w for w in waits if w.reason not in ("", "ContainerCreating", "PodInitializing")]
    return [stop("container", w.reason, w.message or "kubelet gives no details", _LOGS) for w in named[:1]]


def _status_findings(pod: ObservedPod, cluster: ClusterView) -> Iterator[Finding]:
    status, about = pod.status, "pod"
    if status.reason in ("NodeAffinity", "UnexpectedAdmissionError"):
        yield stop(
            about, status.reason, f"kubelet rejected it: {status.message or 'its node lacks labels that it selects'}",
            "remove spec.nodeName, or recreate the pod, so that it is scheduled to a node with the labels",
        )  # fmt: skip
    elif status.phase == "Failed":
        yield stop(about, status.reason or "Failed", status.message or "a container ended with an error", _LOGS)
    elif failures := _container_failures(pod):
        yield from failures
    elif status.phase == "Running" and holds(status.conditions, "Ready", "False"):
        yield wait(about, "NotReady", f"running on {pod.spec.node_name}; its readiness probe does not pass yet", _LOGS)
    elif status.phase in _RUNS:
        yield fact(about, status.phase, f"on {pod.spec.node_name}")
    elif pod.spec.node_name:
        node = cluster.node(pod.spec.node_name)
        message = next((f"{c.type}: {c.message}" for c in status.conditions if c.status == "False" and c.message), "")
        yield wait(
            about, status.phase or "Pending", f"placed on {pod.spec.node_name}; {message or 'kubelet is starting it'}"
        )
        if node is not None and not node.status.ready:
            yield stop(f"node/{node.metadata.name}", "NotReady", "the pod's node is not Ready", "check its kubelet")
    else:
        scheduled = condition_of(status.conditions, "PodScheduled")
        message = scheduled.message if scheduled and scheduled.message else "the scheduler has not processed it yet"
        yield wait(about, scheduled.reason if scheduled and scheduled.reason else "Pending", message)


def _events(pod: ObservedPod, around: PodSurroundings) -> Iterator[Finding]:
    """Yield the newest warning about a pod that does not start, such as a failed mount; claims are reported before."""
    if pod.status.phase in _STARTED:
        return
    for event in [e for e in around.warnings if e.reason not in (*REPORTED, "FailedScheduling")][:1]:
        yield wait("event", event.reason, event.message)
