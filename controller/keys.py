"""What the one queue holds: the name of something that may need work."""

from dataclasses import dataclass
from typing import TypeAlias


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


QueueKey: TypeAlias = ModelKey | NodeKey | GroupKey | ServiceKey | GrantsKey
