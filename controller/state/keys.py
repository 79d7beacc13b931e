"""What the one queue holds: the name of something that may need work."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeAlias, assert_never


@dataclass(frozen=True, slots=True)
class ModelKey:
    """A declared model."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class NodeKey:
    """A node and its ModelNode."""

    name: str


@dataclass(frozen=True, slots=True)
class GroupKey:
    """A node group."""

    name: str


@dataclass(frozen=True, slots=True)
class ServiceKey:
    """An InferenceService."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class GrantsKey:
    """The downloads of all limited groups together."""


EntryKey: TypeAlias = tuple[str, str]  # of a ModelNode: model id and revision
QueueKey: TypeAlias = ModelKey | NodeKey | GroupKey | ServiceKey | GrantsKey
_PLACEMENT = object()


def lane_of(key: QueueKey) -> Hashable:
    """Return what takes turns in the queue: each namespace, the cluster-scoped models, and all that is about nodes."""
    match key:
        case ModelKey() | ServiceKey():
            return key.namespace
        case NodeKey() | GroupKey() | GrantsKey():
            return _PLACEMENT
        case _:
            assert_never(key)
