"""Why a pod does not have its model, or does not run. No input or output, no clock."""

from collections.abc import Iterable, Iterator, Mapping

from controller.admission.pod_annotations import BASE_MODEL, ENABLE_CACHE, MODELS, NOT_CACHED
from controller.cli.why.findings import Diagnosis, Finding, fact, ordered, some, stop, wait
from controller.cli.why.models import summary_of, title_of
from controller.cli.why.nodes import agent_findings
from controller.cli.why.view import ClusterView, ObservedNode, ObservedPod, Taint, Toleration
from controller.placement.selectors import matches_affinity
from shared.api.meta import condition_of, holds
from shared.api.model_node import EVICTED
from shared.names import READY_PREFIX, SNAPSHOT_PREFIX, ready_label, snapshot_label

_MODELS = frozenset(("basemodels", "clusterbasemodels", "clustermodelcaches"))
_RUNS = ("Running", "Succeeded")
_LOGS = "see `kubectl logs` and `kubectl describe pod` of it"


def why_pod(pod: ObservedPod, seen: ClusterView) -> Diagnosis:
    """Return the diagnosis of a pod."""
    annotations = pod.metadata.annotations
    given = _given(annotations)
    findings = [*_injection(pod, given, seen)]
    for identity, revision in given:
        findings += _model(identity, revision, seen)
    if given and not pod.spec.node_name:
        findings += _placement(pod, given, seen)
    findings += _where_it_stands(pod, seen)
    return Diagnosis(f"pod {pod.metadata.namespace}/{pod.metadata.name}", ordered(findings))


def _given(annotations: Mapping[str, str]) -> list[tuple[str, str]]:
    parts = (part.strip().partition("@") for part in annotations.get(MODELS, "").split(","))
    return [(identity, revision) for identity, _, revision in parts if identity]


def _injection(pod: ObservedPod, given: list[tuple[str, str]], seen: ClusterView) -> Iterator[Finding]:
    annotations = pod.metadata.annotations
    asked = [key for key in (BASE_MODEL, ENABLE_CACHE) if key in annotations]
    if given:
        yield fact("admission", "Injected", f"it was given {some(f'{i}@{r}' if r else i for i, r in given)}")
    elif NOT_CACHED in annotations:
        do = "mend what it says and create the pod again; until then it downloads for itself"
        yield stop("admission", "NotCached", annotations[NOT_CACHED], do)
    elif not asked:
        yield stop(
            "admission", "AsksForNoModel", f"it has neither {BASE_MODEL} nor {ENABLE_CACHE} in its own annotations",
            "in a Deployment or Job, the annotation belongs into the pod's template",
        )  # fmt: skip
    elif annotations.get(ENABLE_CACHE) == "false":
        yield fact("admission", "NotWanted", f"{ENABLE_CACHE} is false: it keeps its own download")
    elif pod.metadata.namespace in ("kube-system", seen.release_namespace):
        words = f"pods of namespace {pod.metadata.namespace} are not looked at"
        yield stop("admission", "ExcludedNamespace", words, "create it in another namespace")
    else:
        yield stop(
            "admission", "NotInjected", f"it asks ({some(asked)}) and was given nothing: it was made before Larder, or "
            "while admission did not answer and failurePolicy is Ignore",
            "create the pod again; see `kubectl get mutatingwebhookconfiguration larder`",
        )  # fmt: skip


def _model(identity: str, revision: str, seen: ClusterView) -> Iterator[Finding]:
    declared = seen.of_id(identity)
    if not declared and not seen.hidden.keys() & _MODELS:
        yield wait(identity, "NoObject", "no object declares this model any more; the pod keeps the files it has")
    for found in declared:
        ready = holds(found.status.conditions, "Ready")
        tell = fact if ready else wait
        yield tell(title_of(found), "Model", summary_of(found))
        now = found.demand.serving
        if revision and now and now != revision:
            words = f"the pod was admitted with revision {revision}, new pods get {now}"
            yield fact(title_of(found), "OlderRevision", words)


def _placement(pod: ObservedPod, given: list[tuple[str, str]], seen: ClusterView) -> Iterator[Finding]:
    if "nodes" in seen.hidden:
        yield fact("labels", "NotShown", "you may not list nodes, so which of them have the model is not known here")
        return
    selector, about = pod.spec.node_selector, "labels"
    wanted = {key: value for key, value in selector.items() if key.startswith((READY_PREFIX, SNAPSHOT_PREFIX))}
    for identity, revision in given:
        keys = {ready_label(identity), snapshot_label(identity, revision)} if revision else set()
        if gone := sorted(keys - selector.keys()):
            yield stop(about, "SelectorRemoved", f"the pod does not select {some(gone)} any more", "create it again")
    for key, value in sorted(wanted.items()):
        having = [n.metadata.name for n in seen.nodes if n.metadata.labels.get(key) == value]
        tell = fact if having else stop
        yield tell(about, "Nodes" if having else "NoNodeHasLabel", f"{key}: {some(having) or 'no node has it'}")
    stocked = [n for n in seen.nodes if all(n.metadata.labels.get(k) == v for k, v in wanted.items())]
    if not stocked:
        yield from _on_their_way(given, seen)
        return
    others = {k: v for k, v in selector.items() if k not in wanted}
    for node in stocked:
        if barriers := list(_barriers(pod, others, node)):
            yield stop(f"node/{node.metadata.name}", "DoesNotFit", "it has the model, but " + "; ".join(barriers))
        else:
            yield fact(f"node/{node.metadata.name}", "Fits", "it has the model, and lets the pod in")


def _on_their_way(given: list[tuple[str, str]], seen: ClusterView) -> Iterator[Finding]:
    """Yield what the nodes that should have the models report about them."""
    for identity, _ in given:
        for found in seen.of_id(identity):
            targets = [n for n in seen.nodes if seen.is_target(found.demand, n)]
            do = f"see `larder why {_argument(found.demand.kind, found.demand.namespace, found.demand.name)}`"
            if not targets:
                yield stop(title_of(found), "NoNodes", "no node is meant to hold it, so no label will come", do)
            for node in targets:
                state = found.node_states.get(node.metadata.name)
                words = f"{state.phase} {state.reason} {state.message}".strip() if state else "nothing reported yet"
                tell = stop if state and state.phase in ("Failed", EVICTED) else wait
                yield tell(f"{identity} on node/{node.metadata.name}", "LabelToCome", words, do)
                yield from (f for f in agent_findings(node, seen) if f.weight == "!")


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
            yield f"has not the pod's {key}={value}"
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


def _held_containers(pod: ObservedPod) -> list[Finding]:
    """Return why containers do not run, in kubelet's words."""
    states = [status.state for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)]
    waits = [state.waiting for state in states if state.waiting is not None]
    named = [w for w in waits if w.reason not in ("", "ContainerCreating", "PodInitializing")]
    return [stop("container", w.reason, w.message or "kubelet says no more", _LOGS) for w in named[:1]]


def _where_it_stands(pod: ObservedPod, seen: ClusterView) -> Iterator[Finding]:
    status, about = pod.status, "pod"
    if status.reason in ("NodeAffinity", "UnexpectedAdmissionError"):
        yield stop(
            about, status.reason, f"kubelet ended it: {status.message or 'its node lacks the labels it selects'}",
            "remove spec.nodeName, or create it again: it is placed where the labels are",
        )  # fmt: skip
    elif status.phase == "Failed":
        yield stop(about, status.reason or "Failed", status.message or "a container ended with an error", _LOGS)
    elif held := _held_containers(pod):
        yield from held
    elif status.phase == "Running" and holds(status.conditions, "Ready", "False"):
        yield wait(about, "NotReady", f"it runs on {pod.spec.node_name}; its readiness probe does not pass yet", _LOGS)
    elif status.phase in _RUNS:
        yield fact(about, status.phase, f"on {pod.spec.node_name}")
    elif pod.spec.node_name:
        node = seen.node(pod.spec.node_name)
        words = next((f"{c.type}: {c.message}" for c in status.conditions if c.status == "False" and c.message), "")
        yield wait(about, status.phase or "Pending", f"placed on {pod.spec.node_name}; {words or 'kubelet starts it'}")
        if node is not None and not node.status.ready:
            yield stop(f"node/{node.metadata.name}", "NotReady", "the pod's node is not Ready", "look at its kubelet")
    else:
        scheduled = condition_of(status.conditions, "PodScheduled")
        words = scheduled.message if scheduled and scheduled.message else "the scheduler has not looked at it yet"
        yield wait(about, scheduled.reason if scheduled and scheduled.reason else "Pending", words)
