"""What `larder status` reports about a model; no input or output here."""

from collections.abc import Iterable, Iterator

import msgspec

from controller.models.revisions import ACTIVE_CONDITIONS, first_few
from shared.api.kinds import Definition
from shared.api.meta import LeftOut
from shared.api.model_node import Phase
from shared.kube.objects import Object
from shared.selection.left_out import left_out_message

_SHORT = {
    "ClusterModelCache": "cmc", "ClusterBaseModel": "cbm", "BaseModel": "bm", "ModelCache": "mc", "Model": "mdl",
    "TrainingJob": "tj",
}  # fmt: skip
_UNDER_WAY = (
    "Downloading",
    "Provisioning",
    "Queued",
    "Resolving",
    "Retrying",
    "Starting",
    "Suspended",
    "Terminating",
    "WaitingForTurn",
)


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class ModelOnNode(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a model on one node."""

    name: str
    phase: str = ""
    percent: int = 0
    reason: str = ""
    message: str = ""
    revision: str = ""


class _Replicas(msgspec.Struct, frozen=True):
    """The replicas of one role of a TrainingJob."""

    active: int = 0
    succeeded: int = 0


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a status that are read; decoding is lenient, because other software may own the kind."""

    storage_status: str | None = None
    state: str | None = None
    phase: str | None = None
    conditions: list[_Condition] = []
    nodes: list[ModelOnNode] = []
    nodes_total: int = 0
    nodes_ready_count: int = 0
    size: int = 0
    source: str = ""
    serving_revision: str = ""
    resolved_revision: str = ""
    revision: str = ""
    left_out: LeftOut | None = None
    percent: int | None = None  # of a ModelCache, which is on no node
    progress: int | None = None  # the same of a Model
    running: str = ""  # of a TrainingJob: pods that run, `/`, all
    replica_statuses: dict[str, _Replicas] = {}


class ObservedModel(Object, frozen=True, kw_only=True):
    """A model of any kind, with the fields that are shown."""

    status: _Status = _Status()


class ModelReport(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One model; `ready` of `total` target nodes have it, `percent` is the share of all their bytes that is present.

    `problems` may need manual action, `notes` do not.
    """

    model: str
    resource: str
    namespace: str
    name: str
    state: str
    ready: int
    total: int
    percent: int | None
    size: int
    reason: str
    message: str
    revision: str
    source: str
    problems: list[str]
    notes: list[str]
    nodes: list[ModelOnNode]


def report_of(definition: Definition, listed: ObservedModel) -> ModelReport:
    """Return the report of a model."""
    meta, status = listed.metadata, listed.status
    namespace = f"{meta.namespace}/" if meta.namespace else ""
    model = f"{_SHORT[definition.kind]}/{namespace}{meta.name}"
    ready = next((c for c in status.conditions if c.type == "Ready"), _Condition("Ready"))
    return ModelReport(
        model=model,
        resource=f"{definition.kind.lower()}.{definition.group}/{meta.name}",
        namespace=meta.namespace,
        name=meta.name,
        state=status.storage_status or status.state or status.phase or _state_of_job(status) or "Pending",
        ready=status.nodes_ready_count + sum(r.active + r.succeeded for r in status.replica_statuses.values()),
        total=status.nodes_total or _replicas_of_job(status),
        percent=_percent(status),
        size=status.size,
        reason=ready.reason,
        message=ready.message,
        revision=status.serving_revision or status.resolved_revision or status.revision,
        source=status.source,
        problems=list(_problems(model, status, ready)),
        notes=[f"{model}: {left_out_message(status.left_out)}"] if status.left_out else [],
        nodes=status.nodes,
    )


def _state_of_job(status: _Status) -> str:
    """Return the state of a TrainingJob; empty for a model, or while the job waits."""
    found = [c.type for c in status.conditions if c.status == "True"] if status.running else []
    return next((state for state in ("Succeeded", "Failed", "Suspended", "Running") if state in found), "")


def _replicas_of_job(status: _Status) -> int:
    """Return how many pods a TrainingJob wants; 0 for a model."""
    wanted = status.running.rpartition("/")[2]
    return int(wanted) if wanted.isascii() and wanted.isdecimal() else 0


def _percent(status: _Status) -> int | None:
    """Return the percentage of bytes that are present; None if the status does not have it."""
    if not status.nodes_total:
        return status.progress if status.percent is None else status.percent
    partly = sum(n.percent for n in status.nodes if n.phase != Phase.READY)
    return min(100, (100 * status.nodes_ready_count + partly) // status.nodes_total)


def _problems(model: str, status: _Status, ready: _Condition) -> Iterator[str]:
    failing = [n for n in status.nodes if n.reason]
    for reason in dict.fromkeys(n.reason for n in failing):
        alike = [n for n in failing if n.reason == reason]
        where = alike[0].name if len(alike) == 1 else f"{len(alike)} nodes ({first_few(n.name for n in alike)})"
        yield f"{model} on {where}: {reason}: {alike[0].message}"
    active = [c for c in status.conditions if c.type in ACTIVE_CONDITIONS and c.status == "True"]
    yield from (f"{model}: {c.type}: {c.message}" for c in active)
    if not failing and not active and ready.status == "False" and ready.reason not in _UNDER_WAY:
        yield f"{model}: {ready.reason}: {ready.message}"


def on_node(reports: Iterable[ModelReport], node: str) -> list[ModelReport]:
    """Return the models that a node should hold, each with its state there."""
    return [
        msgspec.structs.replace(
            report,
            state=there.phase,
            percent=there.percent,
            reason=there.reason,
            message=there.message,
            revision=there.revision or report.revision,
            problems=[f"{report.model} on {node}: {there.reason}: {there.message}"] if there.reason else [],
            nodes=[there],
        )
        for report in reports
        for there in report.nodes
        if there.name == node
    ]


def unlisted(reports: Iterable[ModelReport], node: str) -> list[str]:
    """Return a note on each model whose status is too long to include this node."""
    return [
        f"{report.model} is not shown: its status lists {len(report.nodes)} of its {report.total} nodes, "
        f"and not {node}; `larder why node/{node}` shows more"
        for report in reports
        if report.total > len(report.nodes) and all(n.name != node for n in report.nodes)
    ]
