"""Ownership of kinds: where another product defines a kind, Larder manages only the objects that opt in."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from shared.api.base_model import BaseModel
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.meta import ApiStruct, Condition, ModelStatus, ReadMetadata
from shared.decode_errors import DECODE_ERRORS
from shared.kube.cache import Cache
from shared.kube.objects import Key, Object

MANAGED_ANNOTATION = "larder.dev/managed"
RECORD_ANNOTATION = "larder.dev/record"
_NEVER_OPTED_IN = frozenset(("InferenceService",))  # another product's InferenceService has a different spec
T = TypeVar("T", bound=Object)


@dataclass(slots=True)
class Ownership:
    """Which kinds other products define; objects of those are managed only if their annotation opts in.

    Another product's InferenceServices are never managed. For our own kinds it also tracks missing CRD fields.
    """

    _foreign: set[str] = field(default_factory=set, init=False)
    _missing_fields: dict[str, str] = field(default_factory=dict, init=False)
    _listeners: dict[str, Callable[[], None]] = field(default_factory=dict, init=False)

    def is_foreign(self, kind: str) -> bool:
        """Return whether another product defined a kind."""
        return kind in self._foreign

    def manages(self, kind: str, annotations: Mapping[str, str]) -> bool:
        """Return whether Larder manages an object of this kind with these annotations."""
        if kind in self._foreign and kind in _NEVER_OPTED_IN:
            return False
        return kind not in self._foreign or annotations.get(MANAGED_ANNOTATION) == "true"

    def managed(self, kind: str, found: T | None) -> T | None:
        """Return the object, completed from its record, if Larder manages it; else None."""
        if found is None or not self.manages(kind, found.metadata.annotations):
            return None
        return with_record(found, newest=kind in self._foreign)

    def set_foreign(self, kind: str, *, foreign: bool) -> bool:
        """Record who defined a kind; return whether that changed, after calling its listener."""
        if foreign == (kind in self._foreign):
            return False
        self._foreign ^= {kind}
        self._listeners.get(kind, _ignore)()
        return True

    def missing_fields(self, kind: str) -> str:
        """Return what to do if the kind's definition prunes what we write; empty if it keeps everything."""
        return self._missing_fields.get(kind, "")

    def set_missing_fields(self, kind: str, message: str) -> bool:
        """Set the message about a kind's missing fields; return whether it changed, after calling the listener."""
        if message == self.missing_fields(kind):
            return False
        self._missing_fields[kind] = message
        self._listeners.get(kind, _ignore)()
        return True

    def listen(self, kind: str, listener: Callable[[], None]) -> None:
        """Call the listener when the kind's owner or definition changes."""
        self._listeners[kind] = listener


def _ignore() -> None:
    """Do nothing; the default listener."""


@dataclass(slots=True)
class ManagedSink(Generic[T]):
    """Filters what a reflector passes to its cache; `on_unmanaged` receives unmanaged objects, or None once gone."""

    kind: str
    ownership: Ownership
    cache: Cache[T]
    on_unmanaged: Callable[[Key, T | None], None]
    _all: dict[Key, T] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.ownership.listen(self.kind, self._refilter)

    def replace(self, objects: Sequence[T], unreadable: Collection[Key] = ()) -> None:
        """Replace the contents with `objects`, and keep the known state of `unreadable`."""
        kept = {key: self._all[key] for key in unreadable if key in self._all}
        gone = self._all.keys() - kept.keys() - {obj.key for obj in objects}
        for key in gone:
            self.remove(key)
        self._all = kept | {obj.key: obj for obj in objects}
        for obj in list(self._all.values()):
            self._route(obj, self.cache.upsert)

    def upsert(self, obj: T) -> None:
        """Insert or update an object."""
        self._all[obj.key] = obj
        self._route(obj, self.cache.upsert)

    def remove(self, key: Key) -> None:
        """Remove an object."""
        self._all.pop(key, None)
        self.cache.remove(key)
        self.on_unmanaged(key, None)

    def _refilter(self) -> None:
        """Report every object again, because its definition has another owner or other fields."""
        for obj in list(self._all.values()):
            self._route(obj, self.cache.put)

    def _route(self, obj: T, store: Callable[[T], None]) -> None:
        ours = self.ownership.managed(self.kind, obj)
        self.on_unmanaged(obj.key, obj if ours is None else None)
        if ours is None:
            self.cache.remove(obj.key)
        else:
            store(ours)


class StatusRecord(ApiStruct, frozen=True, kw_only=True):
    """State that must outlive the controller, in an annotation because another product's kind may lack the fields."""

    source: str = ""
    resolved_revision: str = ""
    serving_revision: str = ""
    claim_revision: str = ""
    manifest_digest: str = ""
    size: int = 0
    files: int = 0
    selection: str = ""
    resolution_number: int = 0
    refreshed: str = ""
    metadata: ReadMetadata | None = None
    conditions: list[Condition] = []


def record_of(status: ModelStatus) -> str:
    """Return the annotation for a status: the resolution, and the reported readiness without its message."""
    ready = [msgspec.structs.replace(c, message="") for c in status.conditions if c.type == "Ready"]
    names = [f.name for f in msgspec.structs.fields(StatusRecord) if f.name != "conditions"]
    record = StatusRecord(conditions=ready, **{name: getattr(status, name) for name in names})
    return msgspec.json.encode(record).decode()


def with_record(found: T, *, newest: bool = False) -> T:
    """Return the object with the fields of its record that its status lacks.

    `newest`: the record is written before the status, so it takes precedence over an older status as a whole. The
    number of the resolution shows whether Larder has owned the kind since, when no records were written.
    """
    text = found.metadata.annotations.get(RECORD_ANNOTATION)
    if text is None or not isinstance(found, BaseModel | ClusterModelCache):
        return found
    try:
        record = msgspec.json.decode(text, type=StatusRecord)
    except DECODE_ERRORS:
        return found  # the record was tampered with, so ask the source again
    known = {f.name: getattr(record, f.name) for f in msgspec.structs.fields(StatusRecord)}
    newest = newest and record.resolution_number >= found.status.resolution_number
    in_status = {name for name in known if getattr(found.status, name) and (name == "conditions" or not newest)}
    added = {name: value for name, value in known.items() if name not in in_status}
    return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, **added))
