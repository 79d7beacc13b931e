"""The pods with claims from templates that have not started."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from controller.replica_claims.annotation import TEMPLATES_ANNOTATION
from controller.replica_claims.gate import GIVEN_ANNOTATION
from controller.replica_claims.identity import IDENTITY_KEYS
from controller.state.index import Index
from controller.state.signal import Signal
from shared.api.core import Pod
from shared.kube.cache import Cache
from shared.kube.objects import Key

_NOT_STARTED = ("", "Pending")
_KEPT = IDENTITY_KEYS | {TEMPLATES_ANNOTATION, GIVEN_ANNOTATION}


@dataclass(slots=True)
class ReplicaPods:
    """A sink for these pods that keeps only the fields that matter to their claims; `changed` signals each change."""

    changed: Signal[Key] = field(default_factory=Signal, init=False)
    _pods: Cache[Pod] = field(init=False)
    _by_claim: Index[Key, Key] = field(default_factory=Index, init=False)

    def __post_init__(self) -> None:
        self._pods = Cache(self._pod_changed)

    def get(self, key: Key) -> Pod | None:
        """Return a pod, or None if it is gone or has started."""
        return self._pods.get(key)

    def of_claim(self, claim: Key) -> list[Key]:
        """Return the pods that mount a claim."""
        return self._by_claim.of(claim)

    def known(self) -> Iterable[Key]:
        """Yield the keys of the pods."""
        return (pod.key for pod in self._pods)

    def replace(self, objects: Sequence[Pod], unreadable: Collection[Key] = ()) -> None:
        """Replace the contents with the pods that have not started; keep the known state of `unreadable` ones."""
        self._pods.replace([_trimmed(pod) for pod in objects if _waits(pod)], unreadable)

    def upsert(self, obj: Pod) -> None:
        """Store the new state of a pod, or drop one that has started or is being deleted."""
        if _waits(obj):
            self._pods.upsert(_trimmed(obj))
        else:
            self._pods.remove(obj.key)

    def remove(self, key: Key) -> None:
        """Forget a pod."""
        self._pods.remove(key)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        known = after or before
        if known is not None:
            self._by_claim.update(known.key, _claims(before), _claims(after))
            self.changed.emit(known.key)


def _waits(pod: Pod) -> bool:
    return pod.status.phase in _NOT_STARTED and pod.metadata.deletion_timestamp is None


def _trimmed(pod: Pod) -> Pod:
    """Drop labels and annotations that are not read here, because a tenant may write 256 KiB of them."""
    labels = {key: value for key, value in pod.metadata.labels.items() if key in _KEPT}
    annotations = {key: value for key, value in pod.metadata.annotations.items() if key in _KEPT}
    return replace(pod, metadata=replace(pod.metadata, labels=labels, annotations=annotations))


def _claims(pod: Pod | None) -> list[Key]:
    return [Key(pod.metadata.namespace, name) for name in pod.spec.claims] if pod is not None else []
