"""The parts of the Kubernetes wire format that every kind shares."""

from typing import Any, NamedTuple

import msgspec


class Key(NamedTuple):
    """What names an object within its kind."""

    namespace: str
    name: str


class Meta(msgspec.Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True):
    """The metadata we read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: list[str] = []
    owner_references: list[dict[str, Any]] = []


class Object(msgspec.Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True):
    """Any object; kinds of our own derive from it."""

    metadata: Meta

    @property
    def key(self) -> Key:
        """The object's name within its kind."""
        return Key(self.metadata.namespace, self.metadata.name)


class Details(msgspec.Struct, rename="camel", frozen=True):
    """The details of a Status that tell when to come back."""

    retry_after_seconds: int = 0


class Status(msgspec.Struct, rename="camel", frozen=True):
    """The server's refusal, as a body or inside an ERROR event."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: Details | None = None


class ListMeta(msgspec.Struct, rename="camel", frozen=True):
    """Where a list stands, and the token for its next page."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, frozen=True):
    """One page of a list, its items not decoded yet; null where a metadata-only list is empty."""

    metadata: ListMeta
    listed: list[msgspec.Raw] | None = msgspec.field(name="items")

    @property
    def items(self) -> list[msgspec.Raw]:
        """Return the items, an empty list for null."""
        return self.listed or []


class Event(msgspec.Struct, frozen=True):
    """One line of a watch, its object not decoded yet."""

    type: str
    object: msgspec.Raw
