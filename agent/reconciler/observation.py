"""All that a decision is made from: one frozen value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from shared.api.model_node import Entry, EntryState, ModelNode
from shared.api.unpacked_metadata import UnpackedMetadata
from shared.metadata.remembered import INTERRUPTED, identity_of_files
from shared.names import ready_label, snapshot_label

Key: TypeAlias = tuple[str, str]
Fingerprint: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class HeldSnapshot:
    """A committed snapshot on disk; `damaged` names the files that are no longer what was committed.

    `unpacked`: its files came out of an archive.
    """

    manifest: str = ""
    damaged: tuple[str, ...] = ()
    verified: str = ""
    unpacked: bool = False


@dataclass(frozen=True, slots=True)
class Cause:
    """What stands in the way, as it is reported; `shortage` are the bytes that must go before the entry fits."""

    reason: str
    message: str
    shortage: int = 0


@dataclass(frozen=True, slots=True)
class Preparing:
    """The manifest is on its way."""

    manifest: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """The manifest is here; nothing is reserved."""

    manifest: str


@dataclass(frozen=True, slots=True)
class Reserved:
    """There is room for every missing byte, and it is this entry's."""

    manifest: str


@dataclass(frozen=True, slots=True)
class Fetching:
    """A download runs; `trouble` is what it is trying again just now, `moved` whether bytes have come."""

    manifest: str
    trouble: Cause | None = None
    stopping: bool = False
    moved: bool = False


@dataclass(frozen=True, slots=True)
class Removing:
    """The snapshot is being set aside and removed; bytes that are gone, of at most so many."""

    done_bytes: int = 0
    total_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Removed:
    """Nothing of the entry is left."""


Work: TypeAlias = Preparing | Prepared | Reserved | Fetching | Removing | Removed


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure of an entry, and from when on it is tried again (in the loop's seconds).

    A `passing` one (a server that does not answer, a grant that is not there yet) leaves the entry Pending.
    """

    trouble: Cause
    due_s: float
    fingerprint: Fingerprint
    failures: int = 1
    passing: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """The node, its ModelNode, its disk and what is under way, at one moment."""

    now_s: float
    node_uid: str
    labels: Mapping[str, str] = field(default_factory=dict)  # of our two families alone
    synced: bool = False
    model_node: ModelNode | None = None
    held: Mapping[Key, HeldSnapshot] = field(default_factory=dict)
    frees: Mapping[Key, int] = field(default_factory=dict)  # bytes that go with a snapshot alone
    works: Mapping[Key, Work] = field(default_factory=dict)
    failures: Mapping[Key, Failure] = field(default_factory=dict)
    skipped: frozenset[Key] = frozenset()  # entries that were already said not to be ours
    readings: Mapping[Key, UnpackedMetadata] = field(default_factory=dict)  # of unpacked snapshots, by their files
    readings_due: Mapping[Key, float] = field(default_factory=dict)  # when an interrupted one is tried again
    inspecting: Key | None = None  # the snapshot that is being read
    slots: int = 2
    patch_due_s: float = 0.0

    @property
    def authority(self) -> ModelNode | None:
        """The ModelNode, if it is this very node's: another's is not obeyed."""
        node = self.model_node
        if self.synced and node and self.node_uid and node.spec.node_uid == self.node_uid:
            return node
        return None

    @property
    def entries(self) -> Mapping[Key, Entry]:
        """What is wanted of this node; nothing where nobody with authority says so."""
        return {e.key: e for e in self.authority.spec.entries} if self.authority else {}

    def is_sound(self, key: Key, manifest: str = "") -> bool:
        """Tell whether a complete, intact snapshot is here, of this manifest where one is named."""
        held = self.held.get(key)
        return bool(held and not held.damaged and manifest in ("", held.manifest))

    def has_labels(self, key: Key) -> bool:
        """Tell whether the Node carries both labels of the entry."""
        return ready_label(key[0]) in self.labels and snapshot_label(*key) in self.labels

    def reading(self, key: Key) -> UnpackedMetadata | None:
        """Return what was read of the snapshot that is here; None where it was another's files, or another reader."""
        held, found = self.held.get(key), self.readings.get(key)
        known = held is not None and found is not None and found.identity == identity_of_files(held.manifest)
        return found if known else None

    def wants_inspection(self, entry: Entry) -> bool:
        """Tell whether the snapshot was unpacked, is Ready, and is to be read: once, or again after an interruption."""
        held = self.held.get(entry.key)
        if held is None or not held.unpacked:
            return False
        if not self.is_sound(entry.key, entry.manifest) or not self.has_labels(entry.key):
            return False
        found = self.reading(entry.key)
        if found is None:
            return True
        return found.reason == INTERRUPTED and self.now_s >= self.readings_due.get(entry.key, 0.0)

    def blocked(self, entry: Entry) -> Failure | None:
        """Return the failure of this same wish that has not been waited out yet."""
        failure = self.failure(entry)
        return failure if failure and self.now_s < failure.due_s else None

    def failure(self, entry: Entry) -> Failure | None:
        """Return the failure of this same wish; one of another wording does not count."""
        found = self.failures.get(entry.key)
        return found if found and found.fingerprint == fingerprint(entry) else None


def fingerprint(entry: Entry) -> Fingerprint:
    """Return what makes a failed entry worth another try at once when it changes; grants and dates do not."""
    claims = tuple((c.kind, c.uid, c.secret_namespace, c.secret) for c in entry.claims)
    return entry.uri, entry.manifest, entry.state, claims


def is_claim(entry: Entry) -> bool:
    """Tell whether the model lies on a PersistentVolumeClaim, which is never the agent's affair."""
    return entry.uri.startswith("pvc://")


def is_present(entry: Entry) -> bool:
    """Tell whether the entry is wanted and can be had by the agent."""
    return entry.state == EntryState.PRESENT and not is_claim(entry)
