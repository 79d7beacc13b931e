"""The agent's cached state, owned by the event loop."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from agent.reconciler.file_lists import FileLists
from agent.reconciler.observation import Failure, Key, StartupTaintState, Work, is_present
from agent.reconciler.own_node import OwnNodeState
from agent.reconciler.retries import WHEN_SPACE_CHANGES_S, SpaceWatermark
from agent.store.download_plan import DownloadPlan
from agent.store.snapshot import Snapshot
from agent.store.tree import blocks_bytes
from shared.api.model_cache_node_group import LEAST_RECENTLY_USED
from shared.api.model_node import Entry, ModelNode
from shared.api.unpacked_metadata import UnpackedMetadata
from shared.errors import TooManyFilesOnNode
from shared.metadata.reading.attempts import INTERRUPTED, interruption_wait

_BLOCK_BYTES = 4096  # of common file systems
_OWN_BLOCKS = 3


@dataclass(frozen=True, slots=True)
class Space:
    """Bytes used, reserved, allowed (0: no limit), free on the disk, to be kept free, and the disk's total."""

    used: int = 0
    reserved: int = 0
    limit: int = 0
    disk_free: int = 0
    floor: int = 0
    disk_size: int = 0


@dataclass(slots=True)
class StateCache:
    """The node, its ModelNode, the snapshots, and work in progress and failures by entry."""

    node: OwnNodeState = field(default_factory=lambda: OwnNodeState(""))
    synced: bool = False
    model_node: ModelNode | None = None
    held: dict[Key, Snapshot] = field(default_factory=dict)
    frees: Mapping[Key, int] = field(default_factory=dict)
    works: dict[Key, Work] = field(default_factory=dict)
    failures: dict[Key, Failure] = field(default_factory=dict)
    plans: dict[Key, DownloadPlan] = field(default_factory=dict)
    file_lists: FileLists = field(default_factory=FileLists)
    metadata: dict[Key, UnpackedMetadata] = field(default_factory=dict)
    metadata_due: dict[Key, float] = field(default_factory=dict)
    reading_metadata: Key | None = None
    skipped: set[Key] = field(default_factory=set)
    space: Space = field(default_factory=Space)
    space_watermark: SpaceWatermark | None = None
    label_patch_due_s: float = 0.0
    labels_refused: str = ""
    startup_taint: StartupTaintState = StartupTaintState()
    disk_changes: int = 0  # a scan that began before the latest change is repeated
    label_changes: int = 0  # likewise for a read of the Node

    def set_node(self, node: OwnNodeState, now_s: float) -> None:
        """Set the newest Node; a new Node or a new startup taint restarts the wait for the ModelNode."""
        if node.uid != self.node.uid or (node.startup_taint and not self.node.startup_taint):
            self.startup_taint = replace(self.startup_taint, since_s=now_s)
        self.node = node

    def set_model_node(self, node: ModelNode | None, now_s: float) -> None:
        """Set the newest ModelNode; if its changes may free space, entries that wait for space ask again."""
        before, self.model_node = self.model_node, node
        if node is None:
            return
        named = {e.key for e in node.spec.entries}
        for key in self.failures.keys() - named - self.works.keys():
            del self.failures[key]
        dropped = self.plans.keys() - named - self.works.keys()
        for key in dropped:
            self.drop_plan(key)
        self.file_lists.forget_refused(named)
        self.skipped &= named
        self._adopt_metadata(node, named, now_s)
        if before is None or _space_rules(before) != _space_rules(node) or dropped or _wanted(before) - _wanted(node):
            self.retry_shortages(now_s)

    def _adopt_metadata(self, node: ModelNode, named: set[Key], now_s: float) -> None:
        """Adopt the metadata that an earlier agent of this node read, and forget entries no longer wanted."""
        for key in self.metadata.keys() - named:
            del self.metadata[key]
            self.metadata_due.pop(key, None)
        reported = node.status.entries if node.status.node_uid == node.spec.node_uid else []
        for status in reported:
            found = status.metadata
            if found is None or status.key not in named or status.key in self.metadata:
                continue
            self.metadata[status.key] = found
            if found.reason == INTERRUPTED:
                wait_s = interruption_wait(found.identity, found.attempts).total_seconds()
                self.metadata_due[status.key] = now_s + wait_s

    def add_plan(self, key: Key, plan: DownloadPlan) -> None:
        """Keep the plan of an entry. Raises TooManyFilesOnNode; then it is not kept."""
        self.plans.pop(key, None)
        self.file_lists.add(key, plan.digest, plan.list_size)
        self.plans[key] = plan

    def drop_plan(self, key: Key) -> DownloadPlan | None:
        """Drop and return the plan of an entry, if it has one; models with many files may then fit."""
        self.file_lists.drop(key)
        return self.plans.pop(key, None)

    def retry_shortages(self, now_s: float) -> None:
        """Make all entries that did not fit ask again together, so that the highest priority comes first."""
        for key, failure in self.failures.items():
            if failure.due_s == WHEN_SPACE_CHANGES_S:
                self.failures[key] = replace(failure, due_s=now_s)

    def set_space(self, space: Space, now_s: float) -> None:
        """Set new space figures; waiting entries ask again when there is more space, and periodically in any case."""
        self.space, used, free = space, space.used, space.disk_free - space.floor
        short = [s.cause.shortage for s in self.failures.values() if s.due_s == WHEN_SPACE_CHANGES_S]
        if self.space_watermark is None or not short:
            self.space_watermark = SpaceWatermark(now_s, used, free)
        elif self.space_watermark.allows_retry(used, free, short, now_s):
            self.retry_shortages(now_s)
            self.space_watermark = SpaceWatermark(now_s, used, free)
        else:
            self.space_watermark = self.space_watermark.lowered(used, free)

    def note_free_space(self, disk_free: int) -> None:
        """Record the disk's free space, in bytes, at the time when an entry did not fit."""
        if self.space_watermark:
            free = disk_free - self.space.floor
            self.space_watermark = self.space_watermark.lowered(self.space_watermark.used, free)

    def add_snapshot(self, key: Key, snapshot: Snapshot) -> None:
        """Add a snapshot that was just committed and count its bytes, because the last scan saw only some of them.

        Otherwise it would be reported Ready while the figures still show that space as free.
        """
        self.set_held(self.held | {key: snapshot})
        uncounted = max(0, sum(content_sizes(self.held.values()).values()) - self.space.used)
        disk_free = max(0, self.space.disk_free - uncounted)
        self.space = replace(self.space, used=self.space.used + uncounted, disk_free=disk_free)

    def set_held(self, held: dict[Key, Snapshot]) -> None:
        """Replace the snapshots on disk."""
        self.held, self.frees = held, exclusive_bytes(held)
        self.file_lists.set_snapshots({key: snapshot.list_size for key, snapshot in held.items()})

    def unfinished_to_keep(self) -> list[DownloadPlan] | None:
        """Return the plans whose unfinished files must stay; None if none may be dropped to make room.

        None is returned where the node may not evict, and while the manifest of a wanted entry is missing.
        """
        node = self.model_node
        if node is None or node.spec.eviction_policy != LEAST_RECENTLY_USED:
            return None
        complete = {key for key, snapshot in self.held.items() if not snapshot.damaged}
        wanted = _wanted(node) - complete - self._refused_lists()
        return list(self.plans.values()) if wanted <= self.plans.keys() else None

    def _refused_lists(self) -> set[Key]:
        """Return the entries whose lists of files do not fit into memory; nothing of them is downloaded."""
        reason = TooManyFilesOnNode.__name__
        return {key for key, failure in self.failures.items() if failure.cause.reason == reason}

    def entries_of(self, key: Key) -> list[Entry]:
        """Return the entry with this key as a list of one; empty if the ModelNode has none."""
        return [e for e in self.model_node.spec.entries if e.key == key] if self.model_node else []

    def is_in_use(self, key: Key) -> bool:
        """Return whether pods on the node use the snapshot of an entry, according to the controller."""
        return any(entry.in_use for entry in self.entries_of(key))

    @property
    def storage_limit(self) -> int:
        """The limit in bytes from the ModelNode; 0 means no limit."""
        return self.model_node.spec.storage_limit if self.model_node else 0


def exclusive_bytes(held: Mapping[Key, Snapshot]) -> dict[Key, int]:
    """Return the bytes, in blocks, freed by removing each snapshot alone; 0 if others share all its files.

    Besides the files no other snapshot has, that includes its directory, its mark, and the model's directory, which is
    removed with the last revision.
    """
    sizes = {key: content_sizes([snapshot]) for key, snapshot in held.items()}
    holders = Counter(sha256 for files in sizes.values() for sha256 in files)
    alone = {key: [n for sha256, n in files.items() if n and holders[sha256] == 1] for key, files in sizes.items()}
    return {key: _blocks_bytes(found) if found else 0 for key, found in alone.items()}


def _blocks_bytes(sizes: Iterable[int]) -> int:
    return _OWN_BLOCKS * _BLOCK_BYTES + sum(blocks_bytes(size, _BLOCK_BYTES) for size in sizes)


def content_sizes(snapshots: Iterable[Snapshot]) -> dict[str, int]:
    """Return the size of each content in these snapshots by digest; shared contents count once."""
    return {f.sha256: f.size for snapshot in snapshots for f in snapshot.files}


def _wanted(node: ModelNode) -> set[Key]:
    return {e.key for e in node.spec.entries if is_present(e)}


def _space_rules(node: ModelNode) -> tuple[int, str]:
    return node.spec.storage_limit, node.spec.eviction_policy
