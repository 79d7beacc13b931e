"""What the agent knows, kept by the event loop alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agent.node import NodeView
from agent.stock.retries import WHEN_SPACE_CHANGES_S
from agent.stock.world import Held, Key, Setback, Work, World
from agent.store.snapshot import Snapshot
from shared.api.model_node import ModelNode
from shared.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Space:
    """Bytes in use, reserved, allowed (0: no limit), free on the disk, of that to stay free, and the disk's own."""

    used: int = 0
    reserved: int = 0
    limit: int = 0
    disk_free: int = 0
    floor: int = 0
    disk_size: int = 0


@dataclass(slots=True)
class Book:
    """The node, its ModelNode, the snapshots, and what is under way or has failed, by entry."""

    node: NodeView = field(default_factory=lambda: NodeView(""))
    synced: bool = False
    model_node: ModelNode | None = None
    held: dict[Key, Snapshot] = field(default_factory=dict)
    works: dict[Key, Work] = field(default_factory=dict)
    setbacks: dict[Key, Setback] = field(default_factory=dict)
    manifests: dict[Key, Manifest] = field(default_factory=dict)
    skipped: set[Key] = field(default_factory=set)
    space: Space = field(default_factory=Space)
    patch_due_s: float = 0.0
    disk_changes: int = 0  # a scan that began before one of them is void
    label_changes: int = 0  # as is a read of the Node

    def take_model_node(self, node: ModelNode | None, now_s: float) -> None:
        """Take the newest ModelNode; a new limit, or entries that went, may let the waiting ones in."""
        before, self.model_node = self.model_node, node
        if node is None:
            return
        named = {e.key for e in node.spec.entries}
        for key in self.setbacks.keys() - named - self.works.keys():
            del self.setbacks[key]
        for key in self.manifests.keys() - named - self.works.keys():
            del self.manifests[key]
        self.skipped &= named
        if before is None or before.spec.storage_limit != node.spec.storage_limit:
            self.retry_shortages(now_s)

    def retry_shortages(self, now_s: float) -> None:
        """Let every entry that did not fit ask again, all at once, so that the first by priority is first."""
        for key, setback in self.setbacks.items():
            if setback.due_s == WHEN_SPACE_CHANGES_S:
                self.setbacks[key] = replace(setback, due_s=now_s)

    @property
    def storage_limit(self) -> int:
        """What the ModelNode allows; 0 is no limit."""
        return self.model_node.spec.storage_limit if self.model_node else 0


def observe(book: Book, works: Mapping[Key, Work], slots: int, now_s: float) -> World:
    """Return the book as one frozen value; `works` are its own with the downloads' troubles filled in."""
    return World(
        now_s=now_s,
        node_uid=book.node.uid,
        labels=dict(book.node.labels),
        synced=book.synced,
        model_node=book.model_node,
        held={key: held_of(snapshot) for key, snapshot in book.held.items()},
        works=dict(works),
        setbacks=dict(book.setbacks),
        skipped=frozenset(book.skipped),
        slots=slots,
        patch_due_s=book.patch_due_s,
    )


def held_of(snapshot: Snapshot) -> Held:
    """Return what a decision needs of a snapshot."""
    return Held(snapshot.manifest_digest, tuple(snapshot.damaged), snapshot.verified)
