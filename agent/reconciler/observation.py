"""The input of a decision, as one frozen value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from shared.api.model_node import Entry, EntryState, ModelNode
from shared.api.unpacked_metadata import UnpackedMetadata
from shared.metadata.reading.attempts import INTERRUPTED, identity_of_files
from shared.names import ready_label, snapshot_label

Key: TypeAlias = tuple[str, str]
Fingerprint: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class HeldSnapshot:
    """A committed snapshot on disk.

    `damaged` lists the files that no longer match what was committed; `unpacked` means the files came from an archive.
    """

    manifest: str = ""
    damaged: tuple[str, ...] = ()
    verified: str = ""
    unpacked: bool = False


@dataclass(frozen=True, slots=True)
class Cause:
    """A failure as it is reported; `shortage` is how many bytes must be freed before the entry fits."""

    reason: str
    message: str
    shortage: int = 0


@dataclass(frozen=True, slots=True)
class FetchingManifest:
    """The manifest is being fetched."""

    manifest: str


@dataclass(frozen=True, slots=True)
class ManifestFetched:
    """The manifest is available; nothing is reserved."""

    manifest: str


@dataclass(frozen=True, slots=True)
class Reserved:
    """Space for every missing byte is reserved for this entry."""

    manifest: str


@dataclass(frozen=True, slots=True)
class Downloading:
    """A download is running.

    `retrying` is the failure that it is currently retrying; `has_received` tells whether any bytes have arrived.
    """

    manifest: str
    retrying: Cause | None = None
    stopping: bool = False
    has_received: bool = False


@dataclass(frozen=True, slots=True)
class Removing:
    """The snapshot is being set aside and removed; `total_bytes` is an upper bound."""

    done_bytes: int = 0
    total_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Removed:
    """Nothing is left of the entry."""


# An entry's work. Arrows name the action that starts a step, or what ends it. Without a box, an entry has no work:
# it is complete, waits for its next attempt, or is not wanted.
#
#  FetchManifest ┌──────────────────┐  ┌─────────────────┐ Reserve ┌──────────┐ DownloadEntry ┌─────────────┐ complete
#   ────────────▶│ FetchingManifest │─▶│ ManifestFetched │────────▶│ Reserved │──────────────▶│ Downloading │──────────▶
#                └──────────────────┘  └─────────────────┘         └──────────┘               └─────────────┘
#    StopWork or failure │    ReleaseEntry │ ▲ does not   ReleaseEntry │        StopWork or failure │
#                        ▼                 ▼ └── fit                   ▼                            ▼
#
#     Remove   ┌──────────┐ files are gone  ┌─────────┐ ReleaseEntry: files have reappeared, or the entry is dropped
#   ──────────▶│ Removing │────────────────▶│ Removed │──────────▶
#              └──────────┘                 └─────────┘
#      failure │
#              ▼
Work: TypeAlias = FetchingManifest | ManifestFetched | Reserved | Downloading | Removing | Removed


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure of an entry, when it is retried, and since when it has failed (on the loop's clock, in seconds).

    A `transient` failure (a server that does not answer, a grant that is not there yet) leaves the entry Pending.
    """

    cause: Cause
    due_s: float
    fingerprint: Fingerprint
    attempts: int = 1
    transient: bool = False
    since_s: float = 0.0


@dataclass(frozen=True, slots=True)
class StartupTaintRule:
    """Which models a node with the startup taint waits for, and for how long.

    Args:
        min_priority: Only models of this priority or higher count.
        failure_s: Seconds after which a failing model no longer counts.
        namespaced_s: Seconds after which namespaced models no longer count, whatever their progress.
    """

    min_priority: int = 0
    failure_s: float = 600.0
    namespaced_s: float = 600.0


@dataclass(frozen=True, slots=True)
class StartupTaintState:
    """The Node's startup taint: whether it is present, when the wait began, and when the next patch is due."""

    present: bool = False
    since_s: float = 0.0
    patch_due_s: float = 0.0
    rule: StartupTaintRule = StartupTaintRule()


@dataclass(frozen=True, slots=True)
class Observation:
    """The node, its ModelNode, its disk and the work in progress at one moment."""

    now_s: float
    node_uid: str
    labels: Mapping[str, str] = field(default_factory=dict)  # of our families only
    synced: bool = False
    model_node: ModelNode | None = None
    held: Mapping[Key, HeldSnapshot] = field(default_factory=dict)  # complete snapshots on disk, damaged ones too
    frees: Mapping[Key, int] = field(default_factory=dict)  # bytes freed if that snapshot alone is removed
    works: Mapping[Key, Work] = field(default_factory=dict)
    failures: Mapping[Key, Failure] = field(default_factory=dict)
    skipped: frozenset[Key] = frozenset()  # entries already reported as not handled by the agent
    metadata: Mapping[Key, UnpackedMetadata] = field(default_factory=dict)  # of unpacked snapshots, by their files
    metadata_due: Mapping[Key, float] = field(default_factory=dict)  # when an interrupted reading is retried
    reading_metadata: Key | None = None  # the snapshot being read
    slots: int = 2
    label_patch_due_s: float = 0.0
    labels_refused: str = ""  # why the API server refuses the latest change of labels
    startup_taint: StartupTaintState = StartupTaintState()

    @property
    def own_model_node(self) -> ModelNode | None:
        """The ModelNode if it is for this very node; another node's is ignored."""
        node = self.model_node
        if self.synced and node and self.node_uid and node.spec.node_uid == self.node_uid:
            return node
        return None

    @property
    def entries(self) -> Mapping[Key, Entry]:
        """The wanted entries by key; empty without an authoritative ModelNode."""
        return {e.key: e for e in self.own_model_node.spec.entries} if self.own_model_node else {}

    def is_intact(self, key: Key, manifest: str = "") -> bool:
        """Return whether a complete, intact snapshot is on disk, of this manifest if one is given."""
        held = self.held.get(key)
        return bool(held and not held.damaged and manifest in ("", held.manifest))

    def has_labels(self, key: Key) -> bool:
        """Return whether the Node has both labels of the entry."""
        return ready_label(key[0]) in self.labels and snapshot_label(*key) in self.labels

    def metadata_of(self, key: Key) -> UnpackedMetadata | None:
        """Return the metadata read from the snapshot on disk; None if it is from other files or another reader."""
        held, found = self.held.get(key), self.metadata.get(key)
        known = held is not None and found is not None and found.identity == identity_of_files(held.manifest)
        return found if known else None

    def wants_metadata(self, entry: Entry) -> bool:
        """Return whether the snapshot was unpacked, is Ready, and is due to be read: once, or after an interruption."""
        held = self.held.get(entry.key)
        if held is None or not held.unpacked:
            return False
        if not self.is_intact(entry.key, entry.manifest) or not self.has_labels(entry.key):
            return False
        found = self.metadata_of(entry.key)
        if found is None:
            return True
        return found.reason == INTERRUPTED and self.now_s >= self.metadata_due.get(entry.key, 0.0)

    def blocked(self, entry: Entry) -> Failure | None:
        """Return the failure of this same request while its backoff lasts."""
        failure = self.failure(entry)
        return failure if failure and self.now_s < failure.due_s else None

    def failure(self, entry: Entry) -> Failure | None:
        """Return the failure of this same request; one for a different request does not count."""
        found = self.failures.get(entry.key)
        return found if found and found.fingerprint == fingerprint(entry) else None


def fingerprint(entry: Entry) -> Fingerprint:
    """Return the fields whose change makes a failed entry retry at once; grants and dates are not among them."""
    claims = tuple((c.kind, c.uid, c.secret_namespace, c.secret) for c in entry.claims)
    return entry.uri, entry.manifest, entry.state, claims


def is_on_pvc(entry: Entry) -> bool:
    """Return whether the model is on a PersistentVolumeClaim, which the agent never handles."""
    return entry.uri.startswith("pvc://")


def is_present(entry: Entry) -> bool:
    """Return whether the entry is wanted and the agent can provide it."""
    return entry.state == EntryState.PRESENT and not is_on_pvc(entry)
