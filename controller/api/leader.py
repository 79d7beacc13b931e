"""Where the leader listens, for what only the leader can use."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
import msgspec

from shared.kube.errors import KubeError, NotFound, Unreachable
from shared.kube.lease import Lease
from shared.kube.transport import Kube

ADDRESS_ANNOTATION = "larder.dev/api-address"
_REMEMBERED_S = 2.0


@dataclass(slots=True)
class Leader:
    """Finds the leader by its Lease, and passes requests on to it; `tls_name` stands in every replica's certificate."""

    kube: Kube
    lease_path: str
    tls: ssl.SSLContext
    tls_name: str
    clock: Callable[[], float]
    _address: str = field(default="", init=False)
    _read_at: float = field(default=-_REMEMBERED_S, init=False)

    async def forward(self, path: str, body: bytes, authorization: str) -> int:
        """Send a POST to the leader as its sender; return the status. Raises KubeError where there is no answer."""
        address = await self._find()
        headers = {"Authorization": authorization, "Content-Type": "application/json", "Larder-Forwarded": "true"}
        extensions = {"sni_hostname": self.tls_name} if self.tls_name else {}
        try:
            async with httpx.AsyncClient(verify=self.tls, timeout=5) as client:
                answer = await client.post(
                    f"https://{address}{path}", content=body, headers=headers, extensions=extensions
                )
        except httpx.HTTPError as error:
            raise Unreachable(f"the leader at {address} does not answer: {error}") from error
        return answer.status_code

    async def _find(self) -> str:
        if self.clock() - self._read_at >= _REMEMBERED_S:
            try:
                lease = msgspec.json.decode(await self.kube.request("GET", self.lease_path), type=Lease)
            except NotFound as error:
                raise Unreachable("no replica leads yet") from error
            self._address = lease.metadata.get("annotations", {}).get(ADDRESS_ANNOTATION, "")
            self._read_at = self.clock()
        if not self._address:
            raise KubeError("the leader's Lease names no address")
        return self._address
