"""A Lease object as a lock: read, decide, write with the resource version that was read."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from shared.kube.collection import decode
from shared.kube.errors import NotFound
from shared.kube.transport import Kube


class LeaseSpec(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """The holder of a lease; times are MicroTime, always with six fractional digits."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class Lease(msgspec.Struct, rename="camel", frozen=True):
    """A Lease; its metadata is written back unchanged, with the labels of others."""

    metadata: dict[str, Any]
    spec: LeaseSpec = LeaseSpec()
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"


@dataclass(slots=True)
class LeaseLock:
    """A candidate for a Lease; `identity` must be unique to the process, not to the pod.

    The holder writes its `annotations` to the Lease, so that others can find it.
    """

    kube: Kube
    namespace: str
    name: str
    identity: str
    lease_s: float
    annotations: Mapping[str, str] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _seen: LeaseSpec | None = field(default=None, init=False)
    _seen_at: float = field(default=0, init=False)

    async def acquire(self) -> bool:
        """Acquire or renew the lease; return False while another holds it. Raises KubeError if that is unknown."""
        try:
            lease = await self._get()
        except NotFound:
            await self._write("POST", self._taken(Lease({"name": self.name})))
            return True
        if self._held_by_other(lease.spec):
            return False
        await self._write("PUT", self._taken(lease))
        return True

    async def release(self) -> None:
        """Release the lease, if still ours, so that the next candidate can take it at once."""
        lease = await self._get()
        if lease.spec.holder_identity == self.identity:
            free = msgspec.structs.replace(lease.spec, holder_identity="", lease_duration_seconds=1)
            await self._write("PUT", msgspec.structs.replace(lease, spec=free))

    def _held_by_other(self, spec: LeaseSpec) -> bool:
        """Return whether another candidate holds the lease.

        Its duration counts from when we saw the record change: clocks of different machines are never compared.
        """
        if spec.holder_identity in {"", self.identity}:
            return False
        if spec != self._seen:
            self._seen, self._seen_at = spec, self.clock()
        return self.clock() < self._seen_at + spec.lease_duration_seconds

    def _taken(self, lease: Lease) -> Lease:
        annotations = (lease.metadata.get("annotations") or {}) | dict(self.annotations)
        return Lease(lease.metadata | {"annotations": annotations}, self._renewed(lease.spec))

    def _renewed(self, spec: LeaseSpec) -> LeaseSpec:
        now = self.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        ours = spec.holder_identity == self.identity
        return LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=math.ceil(self.lease_s),
            acquire_time=spec.acquire_time if ours else now,
            renew_time=now,
            lease_transitions=spec.lease_transitions + (not ours),
        )

    @property
    def _collection(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    async def _get(self) -> Lease:
        return decode(await self.kube.request("GET", f"{self._collection}/{self.name}"), Lease)

    async def _write(self, method: str, lease: Lease) -> None:
        path = self._collection if method == "POST" else f"{self._collection}/{self.name}"
        await self.kube.request(method, path, body=lease)
