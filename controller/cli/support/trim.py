"""What is kept of each object: pure functions from the API server's object to the bundle's."""

from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from controller.cli.support.redact import redact
from shared.api.base_model import Storage
from shared.api.kinds import Definition
from shared.json_object import Json
from shared.names import NODE_PREFIXES

Trim = Callable[[Json], Json]

NAME_LABEL, COMPONENT_LABEL = "app.kubernetes.io/name", "app.kubernetes.io/component"
_UNKNOWN = "<field that Larder does not know, removed>"
_NODE_LABELS = (
    *NODE_PREFIXES, "kubernetes.io/", "node.kubernetes.io/", "topology.kubernetes.io/",
    "node-role.kubernetes.io/", "beta.kubernetes.io/",
)  # fmt: skip


def belongs_to_larder(item: Json) -> bool:
    """Return whether an object belongs to the chart."""
    labels: dict[str, str] = item.get("metadata", {}).get("labels") or {}
    return labels.get(NAME_LABEL) == "larder"


def trim_model(definition: Definition) -> Trim:
    """Return a function that trims objects of one of our kinds, keeping the fields of the spec that Larder knows."""
    return partial(_trim_model, definition)


def _trim_model(definition: Definition, item: Json) -> Json:
    spec: Json = _known(item.get("spec") or {}, definition.spec)
    if isinstance(spec.get("storage"), dict):
        spec["storage"] = _known(spec["storage"], Storage)
    return _redacted(item | {"spec": spec})


def _known(part: Json, kind: type) -> Json:
    fields = {f.encode_name for f in msgspec.structs.fields(kind)}
    return {key: value if key in fields else _UNKNOWN for key, value in part.items()}


def trim_node(item: Json, more_labels: Iterable[str] = ()) -> Json:
    """Trim a Node to what placement, scheduling and the disk depend on; `more_labels` are keys used by selectors."""
    meta, spec, status = (item.get(part) or {} for part in ("metadata", "spec", "status"))
    wanted = frozenset(more_labels)
    labels = {k: v for k, v in (meta.get("labels") or {}).items() if k in wanted or k.startswith(_NODE_LABELS)}
    named = {key: meta[key] for key in ("name", "uid", "creationTimestamp", "deletionTimestamp") if key in meta}
    kept = {key: status[key] for key in ("conditions", "capacity", "allocatable", "nodeInfo") if key in status}
    placed = {key: spec[key] for key in ("unschedulable", "taints") if key in spec}
    return _redacted({"metadata": named | {"labels": labels}, "spec": placed, "status": kept})


def trim_workload(item: Json) -> Json:
    """Keep Larder's own workloads whole; of others in its namespace, only name and status."""
    if belongs_to_larder(item):
        return _redacted(item)
    meta, status = item.get("metadata", {}), item.get("status") or {}
    named = {key: meta[key] for key in ("name", "namespace", "creationTimestamp") if key in meta}
    return {"metadata": named, "note": "does not belong to Larder", "status": {"phase": status.get("phase", "")}}


def trim_definition(item: Json) -> Json:
    """Trim a CustomResourceDefinition to its versions and status, without the schemas."""
    spec, status = item.get("spec") or {}, item.get("status") or {}
    versions = [{k: v.get(k) for k in ("name", "served", "storage")} for v in spec.get("versions", [])]
    kept = {"group": spec.get("group"), "names": spec.get("names"), "scope": spec.get("scope"), "versions": versions}
    state = {key: status.get(key) for key in ("conditions", "storedVersions")}
    return _redacted({"metadata": item.get("metadata", {}), "spec": kept, "status": state})


def trim_event(item: Json) -> Json:
    """Trim an Event to what happened to which object, and when."""
    wanted = (
        "type", "reason", "message", "count", "firstTimestamp", "lastTimestamp", "eventTime", "involvedObject",
        "source", "reportingComponent", "series",
    )  # fmt: skip
    return _redacted({key: item[key] for key in wanted if item.get(key)})


def trim_any(item: Json) -> Json:
    """Keep everything that is not secret."""
    return _redacted(item)


def selector_keys(models: Iterable[Json]) -> frozenset[str]:
    """Return the label keys by which groups and models select nodes."""
    keys: set[str] = set()
    for item in models:
        spec = item.get("spec") or {}
        for part in (spec, spec.get("storage") or {}):
            keys |= (part.get("nodeSelector") or {}).keys()
            keys |= set(_expression_keys(part.get("nodeAffinity") or {}))
    return frozenset(keys)


def _expression_keys(affinity: Json) -> Iterable[str]:
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or []:
        yield from (e.get("key", "") for e in term.get("matchExpressions") or [])


def reports_problem(item: Json) -> bool:
    """Return whether an object reports a problem; such objects are kept first."""
    status = item.get("status") or {}
    ready = next((c.get("status") for c in status.get("conditions") or [] if c.get("type") == "Ready"), "True")
    behind = status.get("observedGeneration", 0) < item.get("metadata", {}).get("generation", 0)
    own = "entries" in (item.get("spec") or {}) and behind
    return (
        ready != "True"
        or own
        or item.get("type") == "Warning"
        or any(e.get("reason") for e in status.get("entries") or [])
    )


def _redacted(item: Json) -> Json:
    found: Json = redact(item)
    return found
