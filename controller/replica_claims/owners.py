"""Finds the workload that owns the claims of a pod: the topmost controller of a kind that the chart names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from controller.claimtemplates.templates import ClaimOwner
from controller.manager.event_recorder import subject_of
from controller.replica_claims.identity import controller_of
from controller.replica_claims.workload_kinds import POD, WorkloadKind, WorkloadKinds
from shared.kube.collection import decode
from shared.kube.errors import NotFound, Refused
from shared.kube.events import EventSubject
from shared.kube.objects import Meta, Object
from shared.kube.transport import Kube

OWNER_GONE = "WorkloadGone"
NOT_READABLE = "WorkloadNotReadable"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_MAX_STEPS = 8
_KEPT_S = 10.0
_MAX_KEPT = 2000
Reference: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NoWorkload:
    """Why the workload of a pod cannot own claims."""

    reason: str
    message: str


@dataclass(slots=True)
class WorkloadOwners:
    """Reads controllers' metadata live, and caches it for ten seconds for other pods of the workload."""

    kube: Kube
    kinds: WorkloadKinds
    clock: Callable[[], float]
    _known: dict[EventSubject, tuple[float, ClaimOwner | NoWorkload]] = field(default_factory=dict, init=False)

    async def find_owner(self, namespace: str, controller: Reference) -> ClaimOwner | NoWorkload:
        """Return the workload at the top of a pod's controllers.

        There may be a leader Pod between two of them, as in a LeaderWorkerSet. Kinds that the chart does not name are
        not read and own nothing. An example is a CronJob: each of its Jobs has its own claims.

        Raises:
            KubeError: The request failed; another attempt may succeed.
        """
        subject, now = subject_of(namespace, controller), self.clock()
        if subject is None:
            return NoWorkload(OWNER_GONE, "the pod's owner reference is not valid")
        self._known = {key: found for key, found in self._known.items() if now - found[0] < _KEPT_S}
        if subject in self._known:  # the key is the whole reference, because a tenant may write another's uid
            return self._known[subject][1]
        found = await self._top(namespace, controller)
        if len(self._known) < _MAX_KEPT:
            self._known[subject] = now, found
        return found

    async def is_alive(self, namespace: str, owner: ClaimOwner) -> bool:
        """Read a workload live; return whether it exists and is not being deleted. Raises KubeError."""
        reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
        kind = self.kinds.of(reference)
        return kind is not None and isinstance(await self._read(namespace, kind, reference), Meta)

    def clear(self) -> None:
        """Clear the cache."""
        self._known.clear()

    async def _top(self, namespace: str, controller: Reference) -> ClaimOwner | NoWorkload:
        top: ClaimOwner | NoWorkload = NoWorkload(OWNER_GONE, "the pod is not controlled by a kind that may own claims")
        reference: Reference | None = controller
        for _ in range(_MAX_STEPS):
            kind = self._kind(reference) if reference is not None else None
            if reference is None or kind is None:
                return top
            found = await self._read(namespace, kind, reference)
            if isinstance(found, NoWorkload):
                return found
            if kind is not POD:
                top = _owner(reference)
            reference = controller_of(found.owner_references)
        return NoWorkload(OWNER_GONE, f"the pod has more than {_MAX_STEPS} levels of controllers above it")

    def _kind(self, reference: Reference) -> WorkloadKind | None:
        """Return the kind of a controller, or None if that kind is not read."""
        is_pod = (reference.get("apiVersion"), reference.get("kind")) == (POD.api_version, POD.kind)
        return POD if is_pod else self.kinds.of(reference)

    async def _read(self, namespace: str, kind: WorkloadKind, reference: Reference) -> Meta | NoWorkload:
        name = str(reference.get("name", ""))
        title = f"{kind.kind} {namespace}/{name}"
        try:
            body = await self.kube.request("GET", kind.path(namespace, name), accept=_METADATA)
            found = decode(body, Object).metadata
        except NotFound:
            return NoWorkload(OWNER_GONE, f"{title} does not exist, so nothing can own the claims")
        except Refused as error:
            return NoWorkload(
                NOT_READABLE,
                f"{title} cannot be read: {error}; an administrator can check "
                "volumeClaimTemplates.workloads in the chart",
            )
        if found.uid != reference.get("uid"):
            return NoWorkload(
                OWNER_GONE, f"{title} was replaced by another one of the same name, which creates its own pods"
            )
        if found.deletion_timestamp is not None:
            return NoWorkload(OWNER_GONE, f"{title} is being deleted, so its pods get no claims")
        return found


def _owner(reference: Reference) -> ClaimOwner:
    return ClaimOwner(*(str(reference.get(part, "")) for part in ("apiVersion", "kind", "name", "uid")))
