"""What a bundle contains: which collections, how much of each, and whose logs. No input or output."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from controller.cli.support import trim
from controller.cli.support.trim import COMPONENT_LABEL, Trim
from shared.api.kinds import DEFINITIONS, INFERENCE_SERVICE, MODEL_NODE
from shared.json_object import Json

MAX_AGENTS = 20
_MIB = 2**20
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"


@dataclass(frozen=True, slots=True)
class Piece:
    """One collection, and the file it is written to, one object per line."""

    file: str
    what: str
    path: str
    keep: Trim
    query: Mapping[str, str] = field(default_factory=dict)
    names: frozenset[str] = frozenset()  # if not empty: only these objects
    max_bytes: int = 8 * _MIB


# ModelNodes are collected separately; InferenceServices have pod templates with arbitrary content
_NOT_COLLECTED = (MODEL_NODE, INFERENCE_SERVICE)
MODELS = {
    d.kind: Piece(f"objects/{d.plural}.jsonl", f"every {d.kind}", d.path, trim.trim_model(d))
    for d in DEFINITIONS
    if d not in _NOT_COLLECTED
}
MODEL_NODES = Piece(
    "objects/modelnodes.jsonl", "ModelNodes, those with failures first", MODEL_NODE.path, trim.trim_model(MODEL_NODE),
    max_bytes=24 * _MIB,
)  # fmt: skip


def nodes(models: Iterable[Json]) -> Piece:
    """Return the piece for Nodes, including the labels that these models and groups select them by."""
    keys = trim.selector_keys(models)
    return Piece(
        "nodes.jsonl", "Nodes, those that are not Ready first", "/api/v1/nodes", lambda n: trim.trim_node(n, keys)
    )


def namespace_pieces(namespace: str) -> tuple[Piece, ...]:
    """Return the pieces of the namespace that Larder runs in."""
    core, apps = f"/api/v1/namespaces/{namespace}", f"/apis/apps/v1/namespaces/{namespace}"
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    return (
        Piece("namespace/pods.jsonl", f"pods of namespace {namespace}", f"{core}/pods", trim.trim_workload),
        Piece("namespace/deployments.jsonl", "Deployments there", f"{apps}/deployments", trim.trim_workload),
        Piece("namespace/daemonsets.jsonl", "DaemonSets there", f"{apps}/daemonsets", trim.trim_workload),
        Piece("namespace/leases.jsonl", "Leases there, which name the leader", leases, trim.trim_any, max_bytes=_MIB),
        Piece("namespace/events.jsonl", "Events there", f"{core}/events", trim.trim_event, max_bytes=2 * _MIB),
    )


def cluster_pieces() -> tuple[Piece, ...]:
    """Return the pieces of the cluster: kinds, admission, policies, Events on our objects."""
    kinds = frozenset(d.name for d in DEFINITIONS)
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    larder = frozenset({"larder"})
    policies = frozenset({"larder-agent-nodes", "larder-agent-modelnodes", "larder-store-paths"})
    return (
        Piece("cluster/kinds.jsonl", "our CustomResourceDefinitions, without schemas", definitions,
              trim.trim_definition, names=kinds),
        Piece("cluster/mutating-webhooks.jsonl", "our mutating webhooks",
              f"{_ADMISSION}/mutatingwebhookconfigurations", trim.trim_any, names=larder),
        Piece("cluster/validating-webhooks.jsonl", "our validating webhooks",
              f"{_ADMISSION}/validatingwebhookconfigurations", trim.trim_any, names=larder),
        Piece("cluster/policies.jsonl", "our ValidatingAdmissionPolicies",
              f"{_ADMISSION}/validatingadmissionpolicies", trim.trim_any, names=policies),
        Piece("cluster/flow-schemas.jsonl", "our FlowSchemas", _FLOWS, trim.trim_any,
              names=frozenset({"larder-controller", "larder-agents"})),
        *(
            Piece(f"events/{d.plural}.jsonl", f"Events on every {d.kind}", "/api/v1/events", trim.trim_event,
                  query={"fieldSelector": f"involvedObject.kind={d.kind}"}, max_bytes=_MIB)
            for d in DEFINITIONS
        ),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Log:
    """The log of one container; `previous`: from before its last restart."""

    pod: str
    container: str
    previous: bool

    @property
    def file(self) -> str:
        """Its file name in the bundle."""
        return f"logs/{self.pod}/{self.container}{'.previous' if self.previous else ''}.log"


def choose_pods(pods: Iterable[Json], failing: frozenset[str]) -> list[Json]:
    """Return the pods whose logs are read: every controller, and some agents.

    Agents that are not ready come first, then those of `failing` nodes; at most MAX_AGENTS.
    """
    listed = sorted((p for p in pods if trim.belongs_to_larder(p)), key=lambda p: str(p["metadata"]["name"]))
    controllers = [p for p in listed if component_of(p) == "controller"]
    agents = [p for p in listed if component_of(p) == "agent"]
    agents.sort(key=lambda p: (_is_ready(p), p.get("spec", {}).get("nodeName", "") not in failing))
    return controllers + agents[:MAX_AGENTS]


def logs_of(pod: Json) -> Iterator[Log]:
    """Yield a pod's logs: one per container, and one from before its last restart."""
    name, spec, status = pod["metadata"]["name"], pod.get("spec") or {}, pod.get("status") or {}
    restarted = {
        s["name"]
        for s in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]
        if s.get("restartCount")
    }
    for container in [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]:
        yield Log(name, container["name"], previous=False)
        if container["name"] in restarted:
            yield Log(name, container["name"], previous=True)


def metrics_port(pod: Json) -> int:
    """Return the port of a pod's metrics, which the chart assigns by component."""
    return 8080 if component_of(pod) == "controller" else 8081


def component_of(pod: Json) -> str:
    """Return `controller`, `agent`, or another component of Larder."""
    return str((pod.get("metadata", {}).get("labels") or {}).get(COMPONENT_LABEL, ""))


def _is_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
