"""The pods of services that were left with their own download."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from controller.admission.pods.pod_annotations import NOT_CACHED
from controller.state.index import Index
from controller.state.signal import Signal
from controller.uncached_services.keys import UncachedServiceKey
from controller.uncached_services.services import KINDS, is_uncached, service_of
from shared.api.core import Pod
from shared.kube.cache import Cache
from shared.kube.objects import Key

_LONGEST_REASON = 1000  # admission writes shorter ones


@dataclass(slots=True)
class UncachedPods:
    """A sink that keeps only such pods of one kind of service, and signals services whose pods have a new reason."""

    kind: str
    changed: Signal[UncachedServiceKey] = field(default_factory=Signal, init=False)
    _pods: Cache[Pod] = field(init=False)
    _by_service: Index[UncachedServiceKey, Key] = field(default_factory=Index, init=False)

    def __post_init__(self) -> None:
        self._pods = Cache(self._moved)

    def replace(self, objects: Sequence[Pod], unreadable: Collection[Key] = ()) -> None:
        """Keep the pods that were left with their own download."""
        self._pods.replace([self._trimmed(pod) for pod in objects if is_uncached(pod)], unreadable)

    def upsert(self, obj: Pod) -> None:
        """Keep a pod, or drop it."""
        if is_uncached(obj):
            self._pods.upsert(self._trimmed(obj))
        else:
            self._pods.remove(obj.key)

    def remove(self, key: Key) -> None:
        """Drop a pod."""
        self._pods.remove(key)

    def services(self) -> Iterable[UncachedServiceKey]:
        """Return the services that have such pods."""
        return self._by_service.values()

    def reasons_of(self, service: UncachedServiceKey) -> dict[str, str]:
        """Return the reasons of a service's pods, each with the name of one of them, newest first."""
        pods = [pod for key in self._by_service.of(service) if (pod := self._pods.get(key)) is not None]
        pods.sort(key=lambda pod: (pod.metadata.creation_timestamp, pod.metadata.name))
        found = {pod.metadata.annotations[NOT_CACHED]: pod.metadata.name for pod in pods}
        return dict(reversed(found.items()))

    def _trimmed(self, pod: Pod) -> Pod:
        """Return a pod without the fields that nothing here reads; a tenant may write a megabyte into them."""
        meta, label = pod.metadata, KINDS[self.kind].name_label
        kept = replace(
            meta,
            labels={label: meta.labels[label]} if label in meta.labels else {},
            annotations={NOT_CACHED: meta.annotations[NOT_CACHED][:_LONGEST_REASON]},
            owner_references=[],
        )
        return Pod(metadata=kept)

    def _moved(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        if pod is None:
            return
        old, new = (self._service(found) for found in (before, after))
        self._by_service.update(pod.key, old, new)
        if after is not None and (before is None or _reason(before) != _reason(after)):
            for service in new:
                self.changed.emit(service)

    def _service(self, pod: Pod | None) -> tuple[UncachedServiceKey, ...]:
        found = service_of(self.kind, pod) if pod is not None else None
        return (found,) if found is not None else ()


def _reason(pod: Pod) -> str:
    return pod.metadata.annotations.get(NOT_CACHED, "")
