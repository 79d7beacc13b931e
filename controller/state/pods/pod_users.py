"""Which pods use models."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from controller.placement.claim_place import is_on
from controller.placement.demand import Demand
from controller.placement.pod_placement import promised_snapshots
from controller.placement.volume_names import read_claims
from controller.state.index import Index
from controller.state.keys import EntryKey
from controller.state.pods.mounts import mounts_model, mounts_snapshot, places_in_store
from shared.api.core import TERMINAL_PHASES, Pod
from shared.api.model_node import ModelNode
from shared.kube.cache import Cache
from shared.kube.objects import Key
from shared.names import namespace_of, uses_label


@dataclass(slots=True)
class PodUsers:
    """The watched pods by what they mount.

    Args:
        pods: The pods that use models.
        store_root: Root of the store on every node.
        same_id: Returns the demands of a model id.
        paths_of: Returns the directories on nodes behind claims of a namespace.
    """

    pods: Cache[Pod]
    store_root: str
    same_id: Callable[[str], list[Demand]]
    paths_of: Callable[[str, Iterable[str]], list[str]]
    _by_node: Index[str, Key] = field(default_factory=Index, init=False)

    def on_change(self, before: Pod | None, after: Pod | None) -> None:
        """Record a pod's new node."""
        known = after or before
        if known is not None:
            self._by_node.update(known.key, _node_name(before), _node_name(after))

    def pods_of(self, identity: str, namespace: str) -> list[str]:
        """Return the watched pods that use any revision of a model, as `namespace/name`.

        `namespace` is that of the model, or empty if it is cluster-scoped; only pods of that namespace can use the
        model.
        """
        using = (pod.metadata for pod in self.pods if self.is_user(pod, identity))
        return sorted(f"{meta.namespace}/{meta.name}" for meta in using if namespace in ("", meta.namespace))

    def is_user(self, pod: Pod, identity: str) -> bool:
        """Return whether a pod has not ended and mounts a model; the label alone proves nothing."""
        if pod.status.phase in TERMINAL_PHASES or uses_label(identity) not in pod.metadata.labels:
            return False
        if mounts_model(self._places(pod), identity) or _awaits(pod, identity):
            return True
        namespace, demands = pod.metadata.namespace, list(self.same_id(identity))
        return any(is_on(demand, namespace, claim) for claim in pod.spec.claims for demand in demands)

    def users_of(self, name: str, key: EntryKey) -> list[str]:
        """Return the watched pods on a node that mount a snapshot, as `namespace/name`."""
        using = (pod.metadata for pod, places in self._mounts_on(name) if mounts_snapshot(places, *key))
        return sorted(f"{meta.namespace}/{meta.name}" for meta in using)

    def first_user_of(self, identity: str, namespace: str) -> str:
        """Return the first by name of a namespace's non-terminal pods that use a model, or an empty string."""
        label = uses_label(identity)
        pods = (p for p in self.pods if p.metadata.namespace == namespace and p.status.phase not in TERMINAL_PHASES)
        return min((p.metadata.name for p in pods if label in p.metadata.labels), default="")

    def in_use(self, name: str, model_node: ModelNode) -> frozenset[EntryKey]:
        """Return the entries of a node that watched pods on it mount."""
        mounted = frozenset[str]().union(*(places for _, places in self._mounts_on(name)))
        entries = (e.key for e in model_node.spec.entries) if mounted else ()
        return frozenset(key for key in entries if mounts_snapshot(mounted, *key))

    def pods_on(self, name: str) -> list[Pod]:
        """Return the watched pods on a node."""
        return [pod for key in self._by_node.of(name) if (pod := self.pods.get(key)) is not None]

    def snapshots_on(self, name: str) -> frozenset[EntryKey]:
        """Return the snapshots that watched pods on a node were given and mount; an annotation proves nothing."""
        return frozenset(
            key
            for pod, places in self._mounts_on(name)
            for key in promised_snapshots(pod.metadata.namespace, pod.metadata.annotations)
            if mounts_snapshot(places, *key)
        )

    def _places(self, pod: Pod) -> frozenset[str]:
        """Return the places in the store that a pod mounts, by hostPath or by a claim of ours."""
        claimed = self.paths_of(pod.metadata.namespace, pod.spec.claims)
        return places_in_store([*pod.spec.host_paths, *claimed], self.store_root)

    def _mounts_on(self, name: str) -> Iterator[tuple[Pod, frozenset[str]]]:
        """Yield the watched pods on a node that have not ended, with the places in the store that they mount."""
        yield from ((pod, self._places(pod)) for pod in self.pods_on(name) if pod.status.phase not in TERMINAL_PHASES)


def _node_name(pod: Pod | None) -> Iterable[str]:
    return (pod.spec.node_name,) if pod is not None and pod.spec.node_name else ()


def _awaits(pod: Pod, identity: str) -> bool:
    """Return whether a pod mounts a claim that the controller will create for a model that its namespace may use."""
    if namespace_of(identity) not in ("", pod.metadata.namespace):
        return False
    named = read_claims(pod.metadata.annotations)
    return any(claim in named and named[claim].id == identity for claim in pod.spec.claims)
