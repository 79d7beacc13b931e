"""What `larder status` shows: a row a model, a column a node; no input or output here."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from controller.cli.left_out import left_out_words
from controller.models.revisions import NOTEWORTHY
from shared.api.meta import LeftOut
from shared.quantity import format_bytes

MOST_NODES = 8
_SHORT = {"ClusterModelCache": "cmc", "ClusterBaseModel": "cbm", "BaseModel": "bm"}
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """One model: its name as kubectl takes it, its state, its size, a cell a node, and why it is not ready."""

    model: str
    state: str
    ready: str
    size: str
    cells: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Table:
    """The whole picture; `nodes` is empty where there are too many for columns. `notes` are for nobody to act on."""

    nodes: tuple[str, ...]
    rows: tuple[Row, ...]
    troubles: tuple[str, ...]
    notes: tuple[str, ...] = ()


def build_table(models: Iterable[Json], nodes: Iterable[str]) -> Table:
    """Return the table of these objects, sorted by kind and name."""
    listed = sorted(models, key=lambda m: (m["kind"], m["metadata"].get("namespace", ""), m["metadata"]["name"]))
    columns = sorted(nodes)
    shown = tuple(columns) if len(columns) <= MOST_NODES else ()
    troubles = tuple(t for m in listed for t in _troubles(m))
    return Table(shown, tuple(_row(m, shown) for m in listed), troubles, tuple(n for m in listed for n in _notes(m)))


def title(model: Json) -> str:
    """Return a model's short kind and name, with the namespace where it has one."""
    meta = model["metadata"]
    namespace = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{_SHORT.get(model['kind'], model['kind'])}/{namespace}{meta['name']}"


def _row(model: Json, nodes: Sequence[str]) -> Row:
    status: Json = model.get("status", {})
    states = {n["name"]: n for n in status.get("nodes", [])}
    state = status.get("storageStatus") or status.get("state") or "Pending"
    return Row(
        model=title(model),
        state=state,
        ready=status.get("ready", "0/0"),
        size=format_bytes(status["size"]) if status.get("size") else "",
        cells=tuple(_cell(states.get(n)) for n in nodes),
        reason=_condition(status).get("reason", ""),
    )


def _cell(node: Json | None) -> str:
    if node is None:
        return "-"
    phase, percent = node["phase"], node.get("percent", 0)
    return f"{phase} {percent}%" if phase == "Downloading" else str(phase)


def _troubles(model: Json) -> list[str]:
    """Return a line for everything that somebody may have to act on."""
    status: Json = model.get("status", {})
    lines = [
        f"{title(model)} on {node['name']}: {node['reason']}: {node.get('message', '')}"
        for node in status.get("nodes", [])
        if node.get("reason")
    ]
    lines += [
        f"{title(model)}: {c['type']}: {c['message']}"
        for c in status.get("conditions", [])
        if c["type"] in NOTEWORTHY and c["status"] == "True"
    ]
    ready = _condition(status)
    if not lines and ready.get("status") == "False" and ready.get("reason") not in ("Downloading", "Resolving"):
        lines.append(f"{title(model)}: {ready.get('reason')}: {ready.get('message', '')}")
    return lines


def _notes(model: Json) -> list[str]:
    left = model.get("status", {}).get("leftOut")
    return [f"{title(model)}: {left_out_words(msgspec.convert(left, LeftOut))}"] if left else []


def _condition(status: Json) -> Json:
    found: Json = next((c for c in status.get("conditions", []) if c["type"] == "Ready"), {})
    return found
