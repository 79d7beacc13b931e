"""Gathers what a decision on a claim needs; the only module of this folder that reads."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from controller.placement.demand import Demand
from controller.placement.volume_names import (
    SnapshotKey,
    has_plain_name,
    hashed_name,
    is_our_claim,
    plain_name,
    read_claims,
    volume_names,
    waiting_name,
)
from controller.provisioning.creation_failure import CreationFailure
from controller.state.cluster_state import ClusterState
from controller.volumes.keys import VolumeKey
from controller.volumes.objects import VolumeManifest, VolumeTemplate
from controller.volumes.view import VolumeView
from shared.api.core import BOUND, TERMINAL_PHASES, Pod, pods_in
from shared.api.kinds import CLUSTER_MODEL_CACHE
from shared.kube.collection import list_objects
from shared.kube.objects import Key
from shared.kube.transport import Kube
from shared.names import namespace_of

_NOT_ALLOWED = "ModelNotAllowed"
_NOT_FOUND = "ModelNotFound"


@dataclass(slots=True)
class VolumeObserver:
    """Reads the caches, and the pods of a namespace live before its claim is deleted."""

    cluster: ClusterState
    kube: Kube
    clock: Callable[[], float]
    _unused_since: dict[VolumeKey, float] = field(default_factory=dict, init=False)
    _unbound_since: dict[VolumeKey, float] = field(default_factory=dict, init=False)

    def view(self, key: VolumeKey, failure: CreationFailure | None) -> VolumeView:
        """Return the view of a claim from the caches."""
        name, volumes = Key(key.namespace, key.name), self.cluster.volumes
        users = self._users(name)
        manifest, problem = self._manifest(key, users) if users else (None, ("", ""))
        claim, volume = volumes.claims.get(name), volumes.volume_of(name)
        unbound = claim is not None and volume is not None and claim.status.phase != BOUND
        return VolumeView(
            key=key,
            users=users,
            manifest=manifest,
            claim=claim,
            volume=volume,
            is_ours=claim is not None and is_our_claim(claim),
            problem=problem,
            failure=failure,
            unused_s=self._lasted_s(self._unused_since, key, holds=not users),
            unbound_s=self._lasted_s(self._unbound_since, key, holds=unbound),
        )

    async def with_live_users(self, view: VolumeView) -> VolumeView:
        """Add whether any pod of the namespace mounts the claim, including pods that bypassed admission."""
        pods = await list_objects(self.kube, pods_in(view.key.namespace), Pod)
        used = any(view.key.name in pod.spec.claims and pod.status.phase not in TERMINAL_PHASES for pod in pods)
        return replace(view, live_users=used)

    def forget(self, key: VolumeKey) -> None:
        """Forget a claim that is gone."""
        self._unused_since.pop(key, None)
        self._unbound_since.pop(key, None)

    def clear(self) -> None:
        """Forget how long states have lasted, because another replica may lead meanwhile."""
        self._unused_since.clear()
        self._unbound_since.clear()

    def _users(self, claim: Key) -> tuple[Pod, ...]:
        known = (self.cluster.model_pods.get(pod) for pod in self.cluster.volumes.pods_of(claim))
        return tuple(sorted((p for p in known if p is not None), key=lambda p: p.metadata.creation_timestamp))

    def _lasted_s(self, since: dict[VolumeKey, float], key: VolumeKey, *, holds: bool) -> float:
        """Return how many seconds a state has lasted without interruption; 0 if it does not hold."""
        if not holds:
            since.pop(key, None)
            return 0.0
        return self.clock() - since.setdefault(key, self.clock())

    def _manifest(self, key: VolumeKey, users: tuple[Pod, ...]) -> tuple[VolumeManifest | None, tuple[str, str]]:
        """Return the needs of the oldest pod, or why it cannot be served. Its annotation is untrusted."""
        wanted = read_claims(users[0].metadata.annotations)[key.name]
        if namespace_of(wanted.id) not in ("", key.namespace):
            return None, (_NOT_ALLOWED, f"model {wanted.id} belongs to another namespace than {key.namespace}")
        demands = [d for d in self.cluster.models.same_id(wanted.id) if d.id == wanted.id]
        demand = next((d for d in demands if self._has_revision(d, wanted)), None)
        if demand is None:
            return None, (_NOT_FOUND, _not_found(wanted))
        if key.name not in self._names(wanted, demands):
            return None, (_NOT_ALLOWED, f"the claim of {wanted} is not named {key.name!r}; recreate the pod")
        manifest = VolumeManifest(
            namespace=key.namespace,
            claim=key.name,
            volume=volume_names(key.namespace, key.name)[0],
            wanted=wanted,
            size_bytes=demand.resolution.size_bytes if demand.resolution else 0,
            store_root=self.cluster.store_root,
            template=self._template(demands),
        )
        return manifest, ("", "")

    def _has_revision(self, demand: Demand, wanted: SnapshotKey) -> bool:
        """Return whether a model serves a revision, resolved it, or still has it on a node."""
        if wanted.revision in (demand.serving, demand.resolution.revision if demand.resolution else ""):
            return True
        return (wanted.id, wanted.revision) in self.cluster.listed

    def _names(self, wanted: SnapshotKey, demands: list[Demand]) -> set[str]:
        plain = any(has_plain_name(wanted, demand.claim_revision) for demand in demands)
        return {hashed_name(wanted), waiting_name(wanted)} | ({plain_name(wanted)} if plain else set())

    def _template(self, demands: list[Demand]) -> VolumeTemplate:
        names = (demand.name for demand in demands if demand.kind == CLUSTER_MODEL_CACHE.kind)
        caches = (self.cluster.cluster_model_caches.get(Key("", name)) for name in names)
        specs = (cache.spec for cache in caches if cache is not None)
        return next((VolumeTemplate(spec.pv_spec, spec.pvc_spec) for spec in specs), VolumeTemplate())


def _not_found(wanted: SnapshotKey) -> str:
    return (
        f"no model {wanted.id} has revision {wanted.revision} any more; delete the pod, so that its successor gets "
        "the current one"
    )
