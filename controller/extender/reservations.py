"""Reservations of devices for pods whose bindings are in flight, visible to every replica.

They are kept in one Lease per node. A replica that reserves devices writes the Lease with the resourceVersion
that it read before. If two replicas decide at the same time, one of them gets a conflict and decides again.
"""

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import msgspec

from controller.extender.device_objects import DeviceNode
from shared.decode_errors import DECODE_ERRORS
from shared.devices.annotation import InvalidDeviceInfo, pod_info_from, pod_info_json
from shared.devices.info import PodInfo, without_unknown
from shared.json_object import Json
from shared.kube.collection import decode, get_object, list_metadata
from shared.kube.errors import Conflict, KubeError, NotFound
from shared.kube.objects import Object
from shared.kube.transport import Kube

PREFIX = "larder-devices-"
RESERVED_ANNOTATION = "larder.dev/reserved-devices"
SEEN_ANNOTATION = "larder.dev/pods-seen"
NODE_ANNOTATION = "larder.dev/node"
EXPIRES_S = 120.0  # longer than any request can be in flight
_LONGEST_NAME = 253
_TIMEOUT_S = 5.0
_Attempt = tuple[str, str]  # a pod's uid, and which attempt to bind it
_DELETED: _Attempt = ("", "")  # no attempt: when the Lease was found to be deleted


class _Record(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    uid: str
    devices: Json
    attempt: str = ""


class UnreadableReservations(KubeError):
    """The reservations of a Lease cannot be read or were deleted, so none of the node's devices is known to be free."""


@dataclass(frozen=True, slots=True)
class DeviceReservation:
    """The devices that a pod gets with its binding; `attempt` identifies one of several attempts to bind it.

    With `is_repeated`, an earlier attempt with the same devices may still arrive at the API server.
    """

    namespace: str
    name: str
    uid: str
    info: PodInfo
    attempt: str = ""
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class DeviceReservations:
    """The contents, uid and resourceVersion of a node's Lease; both are empty if there is no Lease yet.

    A reservation is dropped once its pod is on the node; no such pod has a resourceVersion above `pods_seen`. With
    `is_lost`, there is no Lease, or it or its version of the pods cannot be read, so it is unknown which reservations
    were dropped.
    """

    node: str
    node_uid: str
    lease_uid: str = ""
    version: str = ""
    entries: tuple[DeviceReservation, ...] = ()
    pods_seen: int = 0
    is_lost: bool = False

    def of_pod(self, uid: str) -> DeviceReservation | None:
        """Return the reservation of a pod."""
        return next((entry for entry in self.entries if entry.uid == uid), None)

    def has(self, reservation: DeviceReservation) -> bool:
        """Return whether this attempt's reservation is still here."""
        found = self.of_pod(reservation.uid)
        return found is not None and found.attempt == reservation.attempt

    def with_entry(self, reservation: DeviceReservation) -> "DeviceReservations":
        """Return these with a reservation added, replacing an earlier one of the same pod."""
        others = (entry for entry in self.entries if entry.uid != reservation.uid)
        return replace(self, entries=(*others, reservation))

    def without(self, reservation: DeviceReservation) -> "DeviceReservations":
        """Return these without a reservation, unless it now belongs to another attempt."""
        if not self.has(reservation):
            return self
        return replace(self, entries=tuple(entry for entry in self.entries if entry.uid != reservation.uid))


def lease_name(node: str) -> str:
    """Return the name of the Lease of a node.

    >>> lease_name("node-1")
    'larder-devices-node-1'
    """
    name = PREFIX + node
    return name if len(name) <= _LONGEST_NAME else PREFIX + hashlib.sha256(node.encode()).hexdigest()


@dataclass(slots=True)
class ReservationStore:
    """Reads and writes the Leases, and caches them: after a write, a Lease is not read again until a conflict."""

    kube: Kube
    namespace: str
    identity: str
    clock: Callable[[], float]
    _known: dict[str, DeviceReservations] = field(default_factory=dict, init=False)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _created: set[str] = field(default_factory=set, init=False)  # nodes whose Lease is known to have existed
    _has_read_all: bool = field(default=False, init=False)
    _seen: dict[str, dict[_Attempt, float]] = field(default_factory=dict, init=False)  # first seen or written, by node

    def knows(self, node: str, node_uid: str) -> bool:
        """Return whether `of` needs no request: the Lease exists and is cached."""
        known = self._known.get(node)
        return known is not None and known.node_uid == node_uid and bool(known.version)

    async def read(self, node: str, node_uid: str, *, live: bool = False) -> DeviceReservations:
        """Return the reservations of a node, from the cache unless `live`. Raises KubeError."""
        known = self._known.get(node)
        if live or known is None or known.node_uid != node_uid:
            found = await get_object(self.kube, self._path(node), Object)
            known = self._missing(node, node_uid) if found is None else self._read(node, node_uid, found)
            self._known[node] = known
        first_seen = self._seen.setdefault(node, {})
        for entry in known.entries:
            first_seen.setdefault(_attempt_of(entry), self.clock())
        return known

    def _missing(self, node: str, node_uid: str) -> DeviceReservations:
        """Return that a node has no reservations; if its Lease was deleted, only once their bindings have arrived."""
        if node in self._created:
            since_s = self._seen.setdefault(node, {}).setdefault(_DELETED, self.clock())
            if self.clock() - since_s < EXPIRES_S:
                raise UnreadableReservations(
                    f"someone deleted Lease {lease_name(node)}, so devices of the node may be reserved for up to "
                    f"{EXPIRES_S:.0f} s; the scheduler retries"
                )
        return DeviceReservations(node, node_uid, is_lost=True)

    def _read(self, node: str, node_uid: str, lease: Object) -> DeviceReservations:
        """Return the reservations of a Lease; none if it was unreadable for longer than a binding can be in flight."""
        self._created.add(node)
        self._seen.setdefault(node, {}).pop(_DELETED, None)
        try:
            return _reservations(node, node_uid, lease)
        except UnreadableReservations:
            unreadable = ("", lease.metadata.resource_version)
            since_s = self._seen.setdefault(node, {}).setdefault(unreadable, self.clock())
            if self.clock() - since_s < EXPIRES_S:
                raise
            return DeviceReservations(
                node, node_uid, lease.metadata.uid, version=lease.metadata.resource_version, is_lost=True
            )

    async def read_all(self) -> None:
        """Read the reservations of all nodes once, in a few requests instead of one per node. Raises KubeError."""
        async with self._reading:
            if self._has_read_all:
                return
            for found in await list_metadata(self.kube, self._collection):
                node = found.metadata.annotations.get(NODE_ANNOTATION, "")
                owners = [str(each.get("uid", "")) for each in found.metadata.owner_references]
                if owners and found.metadata.name == lease_name(node):
                    self._created.add(node)
                    with suppress(UnreadableReservations):  # `of` reports it
                        self._known.setdefault(node, _reservations(node, owners[0], found))
            self._has_read_all = True

    async def write(self, wanted: DeviceReservations) -> None:
        """Write the reservations of a node, unless someone else has written them since they were read.

        Raises:
            Conflict: Someone else has; the next `of` reads them again.
            KubeError: The outcome is unknown, or the API server refused; the next `of` reads them again.
        """
        self._known.pop(wanted.node, None)
        began_s = self.clock()
        try:
            if wanted.version:
                body = await self.kube.request(
                    "PUT", self._path(wanted.node), body=self._lease(wanted), timeout_s=_TIMEOUT_S
                )
            else:
                body = await self.kube.request("POST", self._collection, body=self._lease(wanted), timeout_s=_TIMEOUT_S)
        except NotFound as error:
            raise Conflict(str(error)) from error
        metadata = decode(body, Object).metadata
        self._known[wanted.node] = replace(
            wanted, lease_uid=metadata.uid, version=metadata.resource_version, is_lost=False
        )
        self._created.add(wanted.node)
        seen = self._seen.get(wanted.node, {})
        attempts = map(_attempt_of, wanted.entries)
        self._seen[wanted.node] = {attempt: seen.get(attempt, began_s) for attempt in attempts}

    def is_expired(self, node: str, entry: DeviceReservation) -> bool:
        """Return whether a reservation is so old that the binding of this attempt can no longer be in flight."""
        return self.clock() - self._seen.get(node, {}).get(_attempt_of(entry), self.clock()) >= EXPIRES_S

    def node_changed(self, before: DeviceNode | None, after: DeviceNode | None) -> None:
        """Forget a deleted node, whose Lease Kubernetes deletes too."""
        if before is not None and after is None:
            self._known.pop(before.metadata.name, None)
            self._seen.pop(before.metadata.name, None)
            self._created.discard(before.metadata.name)

    @property
    def _collection(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    def _path(self, node: str) -> str:
        return f"{self._collection}/{lease_name(node)}"

    def _lease(self, wanted: DeviceReservations) -> Json:
        metadata: Json = {
            "name": lease_name(wanted.node),
            "namespace": self.namespace,
            "labels": {"app.kubernetes.io/part-of": "larder"},
            "annotations": {
                NODE_ANNOTATION: wanted.node,
                RESERVED_ANNOTATION: _written(wanted.entries),
                SEEN_ANNOTATION: str(wanted.pods_seen),
            },
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": wanted.node, "uid": wanted.node_uid}],
        }
        if wanted.version:  # with a resourceVersion alone, the API server would create a Lease that was deleted
            metadata |= {"uid": wanted.lease_uid, "resourceVersion": wanted.version}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": {"holderIdentity": self.identity},
        }


def _attempt_of(entry: DeviceReservation) -> _Attempt:
    return entry.uid, entry.attempt


def _reservations(node: str, node_uid: str, lease: Object) -> DeviceReservations:
    annotations = lease.metadata.annotations
    seen = annotations.get(SEEN_ANNOTATION, "")
    is_known = seen.isascii() and seen.isdecimal()
    return DeviceReservations(
        node,
        node_uid,
        lease.metadata.uid,
        version=lease.metadata.resource_version,
        entries=_read(annotations.get(RESERVED_ANNOTATION, "")),
        pods_seen=int(seen) if is_known else 0,
        is_lost=not is_known,
    )


def _written(entries: tuple[DeviceReservation, ...]) -> str:
    """Return the text of the annotation, without keys that are unknown here: they could be large or deeply nested."""
    records = [
        _Record(each.namespace, each.name, each.uid, pod_info_json(without_unknown(each.info)), each.attempt)
        for each in entries
    ]
    return msgspec.json.encode(records).decode()


def _read(text: str) -> tuple[DeviceReservation, ...]:
    """Return the reservations in the annotation. Raises UnreadableReservations."""
    try:
        records = msgspec.json.decode(text, type=list[_Record])
        return tuple(
            DeviceReservation(each.namespace, each.name, each.uid, pod_info_from(each.devices), each.attempt)
            for each in records
        )
    except (*DECODE_ERRORS, InvalidDeviceInfo) as error:
        raise UnreadableReservations(
            f"the node's Lease has reservations of devices that cannot be read ({error}); they are ignored after "
            f"{EXPIRES_S:.0f} s, and the scheduler retries"
        ) from error
