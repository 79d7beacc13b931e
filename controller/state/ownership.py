"""Whose kinds these are: where another product defined one, Larder keeps to the objects that ask for it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from shared.api.base_model import BaseModel
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.meta import ApiStruct, Condition, ReadMetadata, StockStatus
from shared.kube.cache import Cache
from shared.kube.collection import UNREADABLE
from shared.kube.objects import Key, Object

MANAGED_ANNOTATION = "larder.dev/managed"
RECORD_ANNOTATION = "larder.dev/record"
_ALL_OR_NONE = frozenset(("InferenceService",))  # another product's has a spec of its own
T = TypeVar("T", bound=Object)


@dataclass(slots=True)
class Ownership:
    """Which kinds are defined by another product; of those an object is managed where its annotation says so.

    Of an InferenceService of another product nothing is, whatever it says. Of our own it is known what they lack.
    """

    _foreign: set[str] = field(default_factory=set, init=False)
    _lacking: dict[str, str] = field(default_factory=dict, init=False)
    _listeners: dict[str, Callable[[], None]] = field(default_factory=dict, init=False)

    def is_foreign(self, kind: str) -> bool:
        """Return whether another product defined a kind."""
        return kind in self._foreign

    def manages(self, kind: str, annotations: Mapping[str, str]) -> bool:
        """Return whether an object of a kind is Larder's to look after."""
        if kind in self._foreign and kind in _ALL_OR_NONE:
            return False
        return kind not in self._foreign or annotations.get(MANAGED_ANNOTATION) == "true"

    def managed(self, kind: str, found: T | None) -> T | None:
        """Return an object as Larder knows it, None where it is none of Larder's."""
        if found is None or not self.manages(kind, found.metadata.annotations):
            return None
        return with_record(found, newest=kind in self._foreign)

    def learn(self, kind: str, *, foreign: bool) -> bool:
        """Take who defined a kind; return whether that is news, which its listener has heard then."""
        if foreign == (kind in self._foreign):
            return False
        self._foreign ^= {kind}
        self._listeners.get(kind, _ignore)()
        return True

    def lacking(self, kind: str) -> str:
        """Return what to do about the definition of a kind that drops what is written; empty where it keeps all."""
        return self._lacking.get(kind, "")

    def learn_missing_fields(self, kind: str, words: str) -> bool:
        """Take what the definition of a kind lacks; return whether that is news, which its listener has heard then."""
        if words == self.lacking(kind):
            return False
        self._lacking[kind] = words
        self._listeners.get(kind, _ignore)()
        return True

    def listen(self, kind: str, listener: Callable[[], None]) -> None:
        """Have the listener called when a kind has another owner, or another definition."""
        self._listeners[kind] = listener


def _ignore() -> None:
    """Hear nothing."""


@dataclass(slots=True)
class ManagedSink(Generic[T]):
    """Stands between a reflector and its cache; `on_other` hears of what Larder does not manage, None when it went."""

    kind: str
    ownership: Ownership
    cache: Cache[T]
    on_other: Callable[[Key, T | None], None]
    _all: dict[Key, T] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.ownership.listen(self.kind, self._reconsider)

    def replace(self, objects: Sequence[T], unreadable: Collection[Key] = ()) -> None:
        """Become `objects`, and keep what is known of `unreadable`."""
        kept = {key: self._all[key] for key in unreadable if key in self._all}
        gone = self._all.keys() - kept.keys() - {obj.key for obj in objects}
        for key in gone:
            self.remove(key)
        self._all = kept | {obj.key: obj for obj in objects}
        self._reconsider()

    def upsert(self, obj: T) -> None:
        """Take an object's new state."""
        self._all[obj.key] = obj
        self._sort(obj)

    def remove(self, key: Key) -> None:
        """Forget an object."""
        self._all.pop(key, None)
        self.cache.remove(key)
        self.on_other(key, None)

    def _reconsider(self) -> None:
        for obj in list(self._all.values()):
            self._sort(obj)

    def _sort(self, obj: T) -> None:
        ours = self.ownership.managed(self.kind, obj)
        self.on_other(obj.key, obj if ours is None else None)
        if ours is None:
            self.cache.remove(obj.key)
        else:
            self.cache.upsert(ours)


class StatusRecord(ApiStruct, frozen=True, kw_only=True):
    """What must outlive the controller, kept in an annotation: another product's kind may have no fields for it."""

    source: str = ""
    resolved_revision: str = ""
    serving_revision: str = ""
    manifest_digest: str = ""
    size: int = 0
    files: int = 0
    selection: str = ""
    resolution_number: int = 0
    refreshed: str = ""
    metadata: ReadMetadata | None = None
    conditions: list[Condition] = []


def record_of(status: StockStatus) -> str:
    """Return the annotation for a status: the resolution, and what was told of readiness but for its figures."""
    ready = [msgspec.structs.replace(c, message="") for c in status.conditions if c.type == "Ready"]
    names = [f.name for f in msgspec.structs.fields(StatusRecord) if f.name != "conditions"]
    record = StatusRecord(conditions=ready, **{name: getattr(status, name) for name in names})
    return msgspec.json.encode(record).decode()


def with_record(found: T, *, newest: bool = False) -> T:
    """Return the object with what its record knows and its status does not say.

    `newest`: the record is written before the status, so it is not mixed with what an older status says; the number of
    the resolution tells whether the kind was Larder's own since, and nobody wrote records.
    """
    text = found.metadata.annotations.get(RECORD_ANNOTATION)
    if text is None or not isinstance(found, BaseModel | ClusterModelCache):
        return found
    try:
        record = msgspec.json.decode(text, type=StatusRecord)
    except UNREADABLE:
        return found  # somebody wrote into it: the source is asked again
    known = {f.name: getattr(record, f.name) for f in msgspec.structs.fields(StatusRecord)}
    newest = newest and record.resolution_number >= found.status.resolution_number
    said = {name for name in known if getattr(found.status, name) and (name == "conditions" or not newest)}
    told = {name: value for name, value in known.items() if name not in said}
    return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, **told))
