"""Forwards requests that only the leader can handle."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from shared.ca_reload import CaReloader, ClientReloader
from shared.kube.collection import decode
from shared.kube.errors import NotFound, Unreachable
from shared.kube.lease import Lease
from shared.kube.transport import Kube

ADDRESS_ANNOTATION = "larder.dev/api-address"
_REMEMBERED_S = 2.0
_TIMEOUT_S = 5.0
_AT_ONE_TIME = 32  # below the leader's rate for unknown tokens from one address


@dataclass(frozen=True, slots=True)
class LeaderReply:
    """The leader's response, to be relayed."""

    status: int
    body: bytes
    retry_after: str = ""


@dataclass(slots=True)
class LeaderClient:
    """Finds the leader by its Lease and forwards requests to it; every replica's certificate contains `tls_name`."""

    kube: Kube
    lease_path: str
    ca: CaReloader
    tls_name: str
    clock: Callable[[], float]
    _clients: ClientReloader[httpx.AsyncClient] = field(init=False)
    _address: str = field(default="", init=False)
    _read_at: float = field(default=-_REMEMBERED_S, init=False)

    def __post_init__(self) -> None:
        self._clients = ClientReloader(self.ca, _new_client, httpx.AsyncClient.aclose)

    async def forward(self, path: str, body: bytes, authorization: str) -> LeaderReply:
        """Forward a POST to the leader.

        Args:
            path: The path.
            body: The body, JSON.
            authorization: The Authorization header of the sender.

        Returns:
            The response of the leader, whatever its status.

        Raises:
            KubeError: There is no leader, or it does not answer.
        """
        address = await self._find()
        headers = {"Authorization": authorization, "Content-Type": "application/json", "Larder-Forwarded": "true"}
        extensions = {"sni_hostname": self.tls_name} if self.tls_name else {}
        try:
            client = await self._clients.client()
            answer = await client.post(f"https://{address}{path}", content=body, headers=headers, extensions=extensions)
        except OSError as error:
            raise Unreachable(f"cannot read the CA of the other replicas from {self.ca.file}: {error}") from error
        except httpx.HTTPError as error:
            self._read_at = -_REMEMBERED_S  # another replica may lead by now
            raise Unreachable(f"the leader at {address} does not answer: {error}") from error
        return LeaderReply(answer.status_code, answer.content, answer.headers.get("Retry-After", ""))

    async def close(self) -> None:
        """Close the connections."""
        await self._clients.close()

    async def _find(self) -> str:
        if self.clock() - self._read_at >= _REMEMBERED_S:
            try:
                lease = decode(await self.kube.request("GET", self.lease_path), Lease)
            except NotFound as error:
                raise Unreachable("no replica is the leader yet") from error
            self._address = lease.metadata.get("annotations", {}).get(ADDRESS_ANNOTATION, "")
            self._read_at = self.clock()
        if not self._address:
            advice = "set LARDER_ADVERTISE on every replica"
            raise Unreachable(f"the leader's Lease has no address in its annotation {ADDRESS_ANNOTATION}; {advice}")
        return self._address


def _new_client(context: ssl.SSLContext) -> httpx.AsyncClient:
    """Return one connection pool for all reports; proxies of the environment are ignored, so no proxy sees a token."""
    limits = httpx.Limits(max_connections=_AT_ONE_TIME)
    return httpx.AsyncClient(verify=context, timeout=_TIMEOUT_S, limits=limits, trust_env=False)
