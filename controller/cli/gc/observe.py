"""Reads the claims that Larder created, their owners, and the pods that mount them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from controller.cli.gc.decide import GoneOwner, LiveOwner, ObservedClaim, Owner, UnknownOwner
from controller.cli.why.discovery import ServedKinds, read_served_kinds
from controller.placement.volume_names import VOLUME_LABEL
from shared.api.core import CLAIMS, PODS, TERMINAL_PHASES, Pod, claims_in, pods_in
from shared.api.meta import ApiStruct
from shared.kube.collection import get_object, list_objects
from shared.kube.errors import Refused
from shared.kube.objects import Key, Object
from shared.kube.transport import Kube

# Claims of snapshots have no owner: the controller makes them for pods, and deletes them after the last one.
_OURS = f"app.kubernetes.io/managed-by=larder,!{VOLUME_LABEL}"
_KIND_PREFIXES = ("larder.dev/", "models.example.com/")  # of the labels that say what a claim is for


class _Resources(ApiStruct, frozen=True, kw_only=True):
    requests: dict[str, Any] = {}


class _Spec(ApiStruct, frozen=True, kw_only=True):
    resources: _Resources = _Resources()


class _Status(ApiStruct, frozen=True, kw_only=True):
    capacity: dict[str, Any] = {}


class LabelledClaim(Object, frozen=True, kw_only=True):
    """A PersistentVolumeClaim, with the fields that show its owner and its size."""

    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def size(self) -> str:
        """The storage that it has, or requests."""
        return str(self.status.capacity.get("storage") or self.spec.resources.requests.get("storage") or "")


@dataclass(frozen=True, slots=True)
class ClaimUsers:
    """Names of the pods that mount a claim: those that may use it, and those that have ended."""

    active: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()


@dataclass(slots=True)
class OrphanObserver:
    """Reads live; it never writes."""

    kube: Kube
    _served: ServedKinds | None = field(default=None, init=False)
    _owners: dict[tuple[str, str, str, str], Owner | Object] = field(default_factory=dict, init=False)

    async def claims(self, namespace: str = "") -> list[ObservedClaim]:
        """Return the claims that Larder created, in one namespace or in all. Raises KubeError."""
        query = {"labelSelector": _OURS}
        path = claims_in(namespace) if namespace else CLAIMS
        listed = await list_objects(self.kube, path, LabelledClaim, query)
        ours = [claim for claim in listed if any(key.startswith(_KIND_PREFIXES) for key in claim.metadata.labels)]
        owners = {claim.key: await self._owner_of(claim) for claim in ours}
        users = await self.users(namespace) if any(not isinstance(o, LiveOwner) for o in owners.values()) else {}
        return [_observed(claim, owners[claim.key], users.get(claim.key, ClaimUsers()).active) for claim in ours]

    async def users(self, namespace: str = "") -> dict[Key, ClaimUsers]:
        """Return the pods that mount each claim. Raises KubeError."""
        path = pods_in(namespace) if namespace else PODS
        found = dict[Key, ClaimUsers]()
        for pod in await list_objects(self.kube, path, Pod):
            for claim in pod.spec.claims:
                key, name = Key(pod.metadata.namespace, claim), pod.metadata.name
                known = found.get(key, ClaimUsers())
                if pod.status.phase in TERMINAL_PHASES:
                    found[key] = replace(known, ended=(*known.ended, name))
                else:
                    found[key] = replace(known, active=(*known.active, name))
        return found

    async def _owner_of(self, claim: LabelledClaim) -> Owner:
        """Return an owner that exists, else one that cannot be read, else one that is gone."""
        states = [await self._state_of(claim.metadata.namespace, ref) for ref in claim.metadata.owner_references]
        for kind in (LiveOwner, UnknownOwner):
            if state := next((state for state in states if isinstance(state, kind)), None):
                return state
        return next(iter(states), GoneOwner("no owner"))

    async def _state_of(self, namespace: str, reference: Mapping[str, Any]) -> Owner:
        version, kind, name = (str(reference.get(key, "")) for key in ("apiVersion", "kind", "name"))
        key = (version, kind, namespace, name)
        if key not in self._owners:
            self._owners[key] = await self._read(*key)
        found = self._owners[key]
        if not isinstance(found, Object):
            return found
        if found.metadata.uid == reference.get("uid"):
            return LiveOwner()
        return GoneOwner(f"{kind} {name} (replaced by another of that name)")

    async def _read(self, version: str, kind: str, namespace: str, name: str) -> Owner | Object:
        title = f"{kind} {name}"
        if self._served is None:
            self._served = await read_served_kinds(self.kube)
        served = self._served.of(version, kind)
        if served is None:
            return UnknownOwner(title, f"the cluster serves no {kind} of {version}, so the owner cannot be read")
        try:
            found = await get_object(self.kube, served.path(namespace, name), Object)
        except Refused as refusal:
            return UnknownOwner(title, f"the owner cannot be read: {refusal}")
        return GoneOwner(title) if found is None else found


def _observed(claim: LabelledClaim, owner: Owner, users: tuple[str, ...]) -> ObservedClaim:
    meta = claim.metadata
    return ObservedClaim(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        size=claim.size,
        owner=owner,
        deleting=meta.deletion_timestamp is not None,
        mounted_by=users,
    )
