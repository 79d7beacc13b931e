"""The volumes and claims of models in the cluster state, and the pods that name them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from controller.placement.volume_names import SnapshotKey, is_our_claim, read_claims, volume_names
from controller.state.index import Index
from controller.state.signal import Signal
from shared.api.core import TERMINAL_PHASES, PersistentVolume, PersistentVolumeClaim, Pod
from shared.kube.cache import Cache
from shared.kube.objects import Key

_SNAPSHOT = re.compile(r".*/models/[^/]+/[^/]+")


@dataclass(slots=True)
class ModelVolumes:
    """Caches every claim of the cluster, and the volumes that carry Larder's label.

    Args:
        claim_changed: Signals any claim of the cluster that was created, changed or deleted, as last known.
        changed: Signals a claim through which pods reach a model, when it, its volume or its pods changed.
    """

    claim_changed: Signal[PersistentVolumeClaim] = field(default_factory=Signal, init=False)
    changed: Signal[Key] = field(default_factory=Signal, init=False)
    claims: Cache[PersistentVolumeClaim] = field(init=False)
    volumes: Cache[PersistentVolume] = field(init=False)
    _pods: Index[Key, Key] = field(default_factory=Index, init=False)
    _volumes: Index[Key, str] = field(default_factory=Index, init=False)

    def __post_init__(self) -> None:
        self.claims = Cache(self._claim_changed)
        self.volumes = Cache(self._volume_changed)

    def pods_of(self, claim: Key) -> list[Key]:
        """Return the watched pods whose annotation and volumes name a claim."""
        return self._pods.of(claim)

    def volume_of(self, claim: Key) -> PersistentVolume | None:
        """Return the volume that Larder created for a claim, or None; of several, the one that the claim names."""
        known, named = self.claims.get(claim), self._volumes.of(claim)
        if known is not None and known.spec.volume_name in named:
            named = [known.spec.volume_name]
        found = (self.volumes.get(Key("", name)) for name in named)
        return next((volume for volume in found if volume is not None), None)

    def paths_of(self, namespace: str, claims: Iterable[str]) -> list[str]:
        """Return the directories on nodes behind these claims of a namespace."""
        volumes = (self.volume_of(Key(namespace, claim)) for claim in claims)
        return [volume.spec.local.path for volume in volumes if volume is not None]

    def on_pod_change(self, before: Pod | None, after: Pod | None) -> None:
        """Record which claims a pod names, and signal the claims for which this changed."""
        known = after or before
        if known is None:
            return
        old, new = _claims_of(before), _claims_of(after)
        self._pods.update(known.key, old, new)
        for claim in {*old, *new}:
            if before is None or after is None or old.get(claim) != new.get(claim):
                self.changed.emit(claim)

    def known_claims(self) -> set[Key]:
        """Return every claim that a pod names or that has a volume or label of ours."""
        ours = {claim.key for claim in self.claims if is_our_claim(claim)}
        return ours | self._volumes.values() | self._pods.values()

    def _claim_changed(self, before: PersistentVolumeClaim | None, after: PersistentVolumeClaim | None) -> None:
        known = after or before
        if known is None:
            return
        self.claim_changed.emit(known)
        if any(is_our_claim(claim) for claim in (before, after) if claim is not None) or self._pods.of(known.key):
            self.changed.emit(known.key)

    def _volume_changed(self, before: PersistentVolume | None, after: PersistentVolume | None) -> None:
        known = after or before
        if known is None:
            return
        old, new = self._claim_of(before), self._claim_of(after)
        self._volumes.update(known.metadata.name, old, new)
        for claim in {*old, *new}:
            self.changed.emit(claim)

    def _claim_of(self, volume: PersistentVolume | None) -> tuple[Key, ...]:
        """Return the claim of a volume that Larder created; none for any other."""
        return (volume.claim,) if volume is not None and is_our_volume(volume) else ()


def _claims_of(pod: Pod | None) -> dict[Key, SnapshotKey]:
    """Return the claims that a pod mounts and its annotation names; a pod's volumes never change."""
    if pod is None or pod.status.phase in TERMINAL_PHASES:
        return {}
    mounted, namespace = set(pod.spec.claims), pod.metadata.namespace
    named = read_claims(pod.metadata.annotations).items()
    return {Key(namespace, claim): snapshot for claim, snapshot in named if claim in mounted}


def is_our_volume(volume: PersistentVolume) -> bool:
    """Return whether Larder created a volume, perhaps for an earlier store; its label alone proves nothing."""
    spec, named = volume.spec, volume.metadata.name in volume_names(*volume.claim)
    return named and bool(_SNAPSHOT.fullmatch(spec.local.path)) and "ro" in spec.mount_options
