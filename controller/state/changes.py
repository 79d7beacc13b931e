"""Filters out changes that matter to no controller, such as heartbeats and our own node labels."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.placement.demand import Demand
from controller.placement.demand_of_kind import Declared
from controller.state.keys import ModelKey
from controller.state.signal import Signal
from shared.api.core import TERMINAL_PHASES, Node, Pod
from shared.api.inference_service import InferenceService
from shared.api.model_cache import ModelCache
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.api.model_node import EntryStatus, ModelNode
from shared.names import DRAINING_PREFIX, FETCHING_PREFIX, NODE_PREFIXES, SNAPSHOT_PREFIX

_NOT_REQUIRED = (SNAPSHOT_PREFIX, FETCHING_PREFIX, DRAINING_PREFIX)  # by pods behind our gate


@dataclass(frozen=True, slots=True)
class ModelNodeChange:
    """What changed in a ModelNode; `entries` and `statuses` are the ids of the affected models.

    `used_changed`: the bytes that count against its groups' limits changed.
    """

    name: str
    spec_changed: bool
    created_or_deleted: bool
    used_changed: bool
    entries: frozenset[str]
    statuses: frozenset[str]


@dataclass(frozen=True, slots=True)
class Changes:
    """One signal per kind of change, sent after every index is up to date; None means that the object is absent."""

    node: Signal[Node | None, Node | None] = field(default_factory=Signal)
    model_node: Signal[ModelNodeChange] = field(default_factory=Signal)
    group: Signal[ModelCacheNodeGroup | None, ModelCacheNodeGroup | None] = field(default_factory=Signal)
    agent: Signal[str] = field(default_factory=Signal)  # the node whose agent became ready or went away
    model_pod: Signal[Pod | None, Pod | None] = field(default_factory=Signal)
    resource_claim_node: Signal[str] = field(default_factory=Signal)  # the node on which a claim holds a model, or did
    model: Signal[ModelKey, Demand | None, Demand | None] = field(default_factory=Signal)
    unmanaged: Signal[ModelKey, Declared | None, Declared | None] = field(default_factory=Signal)
    inference_service: Signal[InferenceService | None, InferenceService | None] = field(default_factory=Signal)
    snapshot_labels: Signal[frozenset[str]] = field(default_factory=Signal)  # where pods may be placed has changed
    model_cache: Signal[ModelCache | None, ModelCache | None] = field(default_factory=Signal)
    unplaced: Signal[str] = field(default_factory=Signal)  # a model id that gained or lost its place on a node


def node_matters(before: Node | None, after: Node | None) -> bool:
    """Return whether anything but heartbeats and our own labels changed."""
    return before is None or after is None or _facts(before) != _facts(after)


def changed_snapshot_labels(before: Node | None, after: Node | None) -> frozenset[str]:
    """Return the snapshot labels that a node gained or lost.

    If anything else that waiting pods may require has changed, all that the node has now are included.
    """
    old, new = _snapshot_labels(before), _snapshot_labels(after)
    return old ^ new | (new if _required(before) != _required(after) else frozenset())


def model_pod_matters(before: Pod | None, after: Pod | None) -> bool:
    """Return whether a pod that uses models was created, deleted, scheduled, or ended."""
    return before is None or after is None or _use(before) != _use(after)


def model_node_change(before: ModelNode | None, after: ModelNode | None) -> ModelNodeChange | None:
    """Return the relevant changes, or None; free disk space, which every node reports regularly, is not one."""
    known = after or before
    if known is None:
        return None
    created_or_deleted = before is None or after is None
    spec_changed = before is None or after is None or before.spec != after.spec
    change = ModelNodeChange(
        name=known.metadata.name,
        spec_changed=spec_changed,
        created_or_deleted=created_or_deleted,
        used_changed=_used(before) != _used(after),
        entries=_changed_entries(before, after) if spec_changed else frozenset(),
        statuses=_changed_statuses(before, after),
    )
    return change if spec_changed or change.used_changed or change.statuses else None


def _changed_entries(before: ModelNode | None, after: ModelNode | None) -> frozenset[str]:
    old, new = ({e.key: e for e in found.spec.entries} if found else {} for found in (before, after))
    return frozenset(key[0] for key in old.keys() | new.keys() if old.get(key) != new.get(key))


def _changed_statuses(before: ModelNode | None, after: ModelNode | None) -> frozenset[str]:
    old, new = _statuses(before), _statuses(after)
    return frozenset(key[1] for key in old.keys() | new.keys() if old.get(key) != new.get(key))


def _statuses(model_node: ModelNode | None) -> Mapping[tuple[str, str, str], EntryStatus]:
    """Return the agent's statuses by node uid, model id and revision, so that a replaced Node counts as changed."""
    if model_node is None:
        return {}
    return {(model_node.status.node_uid, *s.key): s for s in model_node.status.entries}


def _used(model_node: ModelNode | None) -> tuple[object, ...]:
    return (model_node.status.node_uid, model_node.status.used) if model_node else ()


def _facts(node: Node) -> tuple[object, ...]:
    labels = {k: v for k, v in node.metadata.labels.items() if not k.startswith(NODE_PREFIXES)}
    return node.metadata.uid, labels, node.ready, node.metadata.deletion_timestamp


def _snapshot_labels(node: Node | None) -> frozenset[str]:
    return frozenset(key for key in node.metadata.labels if key.startswith(SNAPSHOT_PREFIX)) if node else frozenset()


def _required(node: Node | None) -> tuple[object, ...]:
    """Return the fields of a Node that waiting pods may depend on, besides snapshot labels."""
    if node is None:
        return ()
    labels = {k: v for k, v in node.metadata.labels.items() if not k.startswith(_NOT_REQUIRED)}
    return node.metadata.uid, labels


def _use(pod: Pod) -> tuple[object, ...]:
    return pod.spec.node_name, pod.status.phase in TERMINAL_PHASES
