"""The actions that bring the actual state of a node closer to the desired one."""

from dataclasses import dataclass
from typing import TypeAlias

from agent.reconciler.observation import Key
from shared.api.model_node import Entry


@dataclass(frozen=True, slots=True)
class ChangeLabels:
    """Set (`"true"`) and remove (None) labels that the agent owns on its own Node, in one patch."""

    changes: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class RemoveStartupTaint:
    """Remove the startup taint from the agent's own Node; `missing` are the models that it no longer waits for."""

    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FetchManifest:
    """Fetch the manifest of the entry."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Reserve:
    """Reserve space for all missing bytes of a prepared entry, or for none."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class DownloadEntry:
    """Download what is missing, verify and commit it.

    With `repair`, an existing snapshot is repaired in place.
    """

    entry: Entry
    repair: bool


@dataclass(frozen=True, slots=True)
class StopWork:
    """Stop the work on an entry and keep its verified bytes."""

    key: Key


@dataclass(frozen=True, slots=True)
class ReleaseEntry:
    """Release an entry's reservation, and start over if the entry is still wanted."""

    key: Key


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove an entry's files if a live read still shows the same ModelNode at the same generation."""

    entry: Entry
    uid: str
    generation: int


@dataclass(frozen=True, slots=True)
class SkipEntry:
    """Record that the agent does not handle this entry, because its model is on a PersistentVolumeClaim."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class ReadSnapshotMetadata:
    """Read the metadata of an entry's unpacked files."""

    entry: Entry


Action: TypeAlias = (
    ChangeLabels
    | RemoveStartupTaint
    | FetchManifest
    | Reserve
    | DownloadEntry
    | StopWork
    | ReleaseEntry
    | Remove
    | SkipEntry
    | ReadSnapshotMetadata
)
