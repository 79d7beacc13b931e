"""The parts of the Kubernetes wire format that all kinds share."""

import re
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

MAX_ENTRIES = 200  # of labels, annotations or owner references
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


def is_object_name(text: str) -> bool:
    """Return whether a text is a valid object name; nothing else may become part of an API path."""
    return bool(_NAME.fullmatch(text)) and ".." not in text


def timestamp(moment: datetime) -> str:
    """Format a UTC time as in Kubernetes objects, in whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


class Key(NamedTuple):
    """The namespace and name of an object."""

    namespace: str
    name: str


class Meta(msgspec.Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True):
    """The metadata fields that we read."""

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


def drop_excess(meta: Meta) -> None:
    """Drop labels, annotations or owner references if there are more than any real object has.

    Tenants may write 100,000 short ones, which take ten times as much memory as their text.
    """
    if len(meta.labels) > MAX_ENTRIES:
        msgspec.structs.force_setattr(meta, "labels", {})
    if len(meta.annotations) > MAX_ENTRIES:
        msgspec.structs.force_setattr(meta, "annotations", {})
    if len(meta.owner_references) > MAX_ENTRIES:
        msgspec.structs.force_setattr(meta, "owner_references", [])


class Object(msgspec.Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True):
    """Any object; our own kinds derive from it."""

    metadata: Meta

    @property
    def key(self) -> Key:
        """The namespace and name of the object."""
        return Key(self.metadata.namespace, self.metadata.name)


class Details(msgspec.Struct, rename="camel", frozen=True):
    """The details of a Status, with the time to wait before a retry."""

    retry_after_seconds: int = 0


class Status(msgspec.Struct, rename="camel", frozen=True):
    """An error from the server, in a response body or an ERROR event."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: Details | None = None


class ListMeta(msgspec.Struct, rename="camel", frozen=True):
    """The resource version of a list, and the token for its next page."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, frozen=True):
    """One page of a list, with its items undecoded."""

    metadata: ListMeta
    listed: list[msgspec.Raw] | None = msgspec.field(name="items")

    @property
    def items(self) -> list[msgspec.Raw]:
        """The items; none if the server sent null."""
        return self.listed or []


class Event(msgspec.Struct, frozen=True):
    """One line of a watch, with its object undecoded."""

    type: str
    object: msgspec.Raw
