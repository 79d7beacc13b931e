"""The pods that have not started, by the snapshots that they were given."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from controller.placement.pod_placement import MODEL_GATE, promised_snapshots
from controller.state.index import Index
from controller.state.keys import EntryKey
from controller.state.signal import Signal
from shared.api.core import Pod
from shared.kube.objects import Key
from shared.names import snapshot_label

NO_SNAPSHOT: EntryKey = ("", "")
_NOT_STARTED = ("", "Pending")
SnapshotUse = tuple[str, EntryKey]  # a namespace, and a snapshot that its pods were given


@dataclass(slots=True)
class WaitingPods:
    """Indexes pods from their creation until they start or end; `changed` signals each change of one of them."""

    changed: Signal[str, EntryKey] = field(default_factory=Signal, init=False)
    _pods: Index[SnapshotUse, Key] = field(default_factory=Index, init=False)
    _unbound: Index[EntryKey, Key] = field(default_factory=Index, init=False)
    _of_label: Index[str, SnapshotUse] = field(default_factory=Index, init=False)
    _of_id: Index[str, SnapshotUse] = field(default_factory=Index, init=False)

    def uses(self) -> set[SnapshotUse]:
        """Return each namespace and snapshot for which pods wait."""
        return self._pods.values()

    def pods_for(self, namespace: str, snapshot: EntryKey) -> list[Key]:
        """Return the pods of a namespace that were given a snapshot and have not started."""
        return self._pods.of((namespace, snapshot))

    def uses_of_label(self, label: str) -> list[SnapshotUse]:
        """Return the uses of the snapshot that a node label names."""
        return self._of_label.of(label)

    def uses_of_id(self, identity: str) -> list[SnapshotUse]:
        """Return the uses of any snapshot of a model."""
        return self._of_id.of(identity)

    def is_needed(self, snapshot: EntryKey) -> bool:
        """Return whether a pod without a node was given a snapshot."""
        return snapshot in self._unbound

    def on_change(self, before: Pod | None, after: Pod | None) -> None:
        """Record a change of a pod, and signal it."""
        known = after or before
        if known is None:
            return
        old, new = _snapshots(before), _snapshots(after)
        namespace = known.metadata.namespace
        self._unbound.update(known.key, _unbound(before), _unbound(after))
        self._pods.update(known.key, ((namespace, key) for key in old), ((namespace, key) for key in new))
        for snapshot in dict.fromkeys([*old, *new]):
            use = namespace, snapshot
            self._register(use, waited_for=use in self._pods)
            self.changed.emit(*use)

    def _register(self, use: SnapshotUse, *, waited_for: bool) -> None:
        identity, revision = use[1]
        for index, value in ((self._of_label, snapshot_label(identity, revision)), (self._of_id, identity)):
            index.update(use, () if waited_for else (value,), (value,) if waited_for else ())


def _snapshots(pod: Pod | None) -> list[EntryKey]:
    """Return the snapshots that a pod waits for: NO_SNAPSHOT if it has our gate but was promised none."""
    if pod is None or pod.status.phase not in _NOT_STARTED:
        return []
    promised = promised_snapshots(pod.metadata.namespace, pod.metadata.annotations)
    gated = any(gate.name == MODEL_GATE for gate in pod.spec.scheduling_gates)
    return promised or ([NO_SNAPSHOT] if gated else [])


def _unbound(pod: Pod | None) -> Iterable[EntryKey]:
    return _snapshots(pod) if pod is not None and not pod.spec.node_name else ()
