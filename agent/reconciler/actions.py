"""What the agent can do about a difference between what is wanted and what is there."""

from dataclasses import dataclass
from typing import TypeAlias

from agent.reconciler.observation import Key
from shared.api.model_node import Entry


@dataclass(frozen=True, slots=True)
class ChangeLabels:
    """Set (`"true"`) and drop (None) labels of our two families on the own Node, in one patch."""

    changes: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class Prepare:
    """Fetch the manifest of the entry."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Reserve:
    """Reserve room for every missing byte of a prepared entry, or none."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Start:
    """Fetch what is missing, verify it and commit; `repair` mends a snapshot that is already in its place."""

    entry: Entry
    repair: bool


@dataclass(frozen=True, slots=True)
class Stop:
    """End what runs for the entry; its verified bytes stay."""

    key: Key


@dataclass(frozen=True, slots=True)
class Forget:
    """Give back what is reserved for the entry, and start over if it is still wanted."""

    key: Key


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove the entry's files, if a live read still shows this very wish: same ModelNode, same generation."""

    entry: Entry
    uid: str
    generation: int


@dataclass(frozen=True, slots=True)
class Skip:
    """Say that the entry is not the agent's affair."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Inspect:
    """Read what the unpacked files of the entry are."""

    entry: Entry


Action: TypeAlias = ChangeLabels | Prepare | Reserve | Start | Stop | Forget | Remove | Skip | Inspect
