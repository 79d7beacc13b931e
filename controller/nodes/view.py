"""Everything that a decision about the ModelNode of one node depends on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from controller.placement.demand import Demand
from controller.placement.groups import NodeLimits
from controller.state.keys import EntryKey
from controller.state.models.retained import RetainedObjects
from shared.api.model_node import Entry, EntryStatus, ModelNode

_NOTHING_RETAINED = RetainedObjects()


def foreign_model_node_message(model_node: ModelNode, node_uid: str) -> str:
    """Say what to do if a ModelNode is for another Node and Larder did not create it; otherwise return an empty string.

    A ModelNode that Larder created is owned by the Node it is for.
    """
    owner_uid, meta = model_node.spec.node_uid, model_node.metadata
    if model_node.may_belong_to(node_uid) or any(ref.get("uid") == owner_uid for ref in meta.owner_references):
        return ""
    return (
        f"ModelNode {meta.name} is for a Node with uid {owner_uid}, but Node {meta.name} has uid {node_uid}, and "
        "Larder did not create this ModelNode, so nothing is placed on the node; delete it "
        f"(kubectl delete modelnode {meta.name}), and Larder creates its own"
    )


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node, the demands that target it, and the users of its snapshots.

    Attributes:
        demands: Those with a resolved source and without a conflict.
        declared_uids: The uids of CRs that exist and are not being deleted, whether they target the node or not.
        in_use: Entries that pods mount or ResourceClaims hold according to the caches, which may be stale.
        acknowledged: When a draining entry was first seen closed, that is, drained by its agent and offered to no new
            ResourceClaim.
        offered: Draining entries that new ResourceClaims may still get, with the time when their agent confirmed the
            drain.
        slices_read: Whether a live list of the node's devices has confirmed `offered`.
        users: The pods that use each entry; None until pods have been listed live.
        unwanted: Entries that no CR wants here, or that may be evicted; None until live reads have proved that. Caches
            may be stale and never suffice to remove files.
        protected: Entries chosen for eviction that may not be evicted, according to the same reads.
        unplaced: Entries that do not fit into the ModelNode, each with the reason.
        awaited: Snapshots that pods on the node mount and that are not complete there.
        restored: The awaited snapshots that this ModelNode does not list, with the entries of another node.
        held: Listed revisions that no longer serve but are kept for unscheduled pods, with the seconds left.
    """

    name: str
    uid: str
    demands: tuple[Demand, ...]
    declared_uids: frozenset[str]
    limits: NodeLimits
    granted: bool
    model_node: ModelNode | None
    in_use: frozenset[EntryKey] = frozenset()
    acknowledged: Mapping[EntryKey, datetime] = field(default_factory=dict)
    offered: Mapping[EntryKey, datetime] = field(default_factory=dict)
    slices_read: bool = False
    users: Mapping[EntryKey, tuple[str, ...]] | None = None
    unwanted: frozenset[EntryKey] | None = None
    protected: frozenset[EntryKey] = frozenset()
    group_of: Mapping[str, str] = field(default_factory=dict)
    retained: RetainedObjects = _NOTHING_RETAINED
    unplaced: Mapping[EntryKey, str] = field(default_factory=dict)
    awaited: frozenset[EntryKey] = frozenset()
    restored: Mapping[EntryKey, Entry] = field(default_factory=dict)
    held: Mapping[EntryKey, float] = field(default_factory=dict)

    def listed(self) -> dict[EntryKey, Entry]:
        """Return the entries of its ModelNode's spec."""
        return {e.key: e for e in self.model_node.spec.entries} if self.model_node else {}

    def has_report(self) -> bool:
        """Return whether an agent has ever reported; the status of an earlier Node of this name is ignored."""
        return self.model_node is not None and self.model_node.status.node_uid == self.uid

    def reported(self) -> dict[EntryKey, EntryStatus]:
        """Return what its agent reports about each entry."""
        return {s.key: s for s in self.model_node.status.entries} if self.model_node and self.has_report() else {}
