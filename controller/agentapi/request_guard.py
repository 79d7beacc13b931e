"""Admits requests from agents with a valid token, within rate limits."""

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from controller.agentapi.authenticator import AgentIdentity, Authenticator
from controller.sources.rate_limits import KeyedRateLimiter, Rate
from shared.kube.errors import KubeError

# Per node and replica. An agent asks for credentials once per download, for a manifest once per revision,
# and reports progress every second while something runs. No wait exceeds a second, which Retry-After states.
RATES: Mapping[str, Rate] = {"credentials": Rate(1, 20), "manifests": Rate(5, 100), "progress": Rate(5, 20)}
INVALID_TOKENS = Rate(1, 60)  # per address: unknown tokens that turn out to be invalid
INVALID_TOKENS_OF_NETWORK = Rate(20, 1200)  # per IPv6 network: one host may own it, or it is that of a node's pods
_ONE_LINE_A_MINUTE = Rate(1 / 60, 1)
_IPV6_NETWORK = 64
_log = structlog.get_logger()


class TooManyError(Exception):
    """The caller exceeds its rate limit and may retry in `after_s` seconds."""

    def __init__(self, message: str, after_s: float) -> None:
        super().__init__(message)
        self.after_s = after_s


@dataclass(slots=True)
class RequestGuard:
    """Limits requests per node for known tokens, and per address for unknown ones.

    A token stays known for half a minute, so a flood of valid ones is stopped before each costs a TokenReview; a flood
    of invalid ones is limited per address.
    """

    authenticator: Authenticator
    clock: Callable[[], float]
    _addresses: KeyedRateLimiter = field(init=False)
    _networks: KeyedRateLimiter = field(init=False)
    _nodes: dict[str, KeyedRateLimiter] = field(init=False)
    _lines: KeyedRateLimiter = field(init=False)

    def __post_init__(self) -> None:
        self._addresses, self._lines = (
            KeyedRateLimiter(INVALID_TOKENS, self.clock),
            KeyedRateLimiter(_ONE_LINE_A_MINUTE, self.clock),
        )
        self._networks = KeyedRateLimiter(INVALID_TOKENS_OF_NETWORK, self.clock)
        self._nodes = {route: KeyedRateLimiter(rate, self.clock) for route, rate in RATES.items()}

    async def admit(self, route: str, header: str, address: str, *, reviewed: bool) -> AgentIdentity:
        """Identify the sender of a request, and count the request.

        Args:
            route: The route, which has a rate limit of its own for each node.
            header: The Authorization header.
            address: The address of the client.
            reviewed: Whether the token is reviewed again even if it is known: for routes that return secrets.

        Returns:
            The agent that sent the request.

        Raises:
            DeniedError: The token does not belong to an agent.
            TooManyError: The sender exceeds its rate limit.
            KubeError: The API server did not review the token.
        """
        known = self.authenticator.remembered(header)
        if known is None:
            known = await self._review_unknown(header, address)
            self._draw(route, known.node)
            return known
        self._draw(route, known.node)
        return await self.authenticator.agent_of(header) if reviewed else known

    async def _review_unknown(self, header: str, address: str) -> AgentIdentity:
        """Review an unknown token; only an invalid one counts against its address and network."""
        network = network_of(address)
        if wait_s := self._addresses.draw(address):
            raise self._too_many("unknown tokens", address, wait_s)
        if wait_s := self._networks.draw(network):
            self._addresses.give_back(address)
            raise self._too_many("unknown tokens", network, wait_s)
        try:
            agent = await self.authenticator.agent_of(header)
        except KubeError:
            self._give_back(address, network)
            raise
        self._give_back(address, network)
        return agent

    def _give_back(self, address: str, network: str) -> None:
        self._addresses.give_back(address)
        self._networks.give_back(network)

    def _draw(self, route: str, node: str) -> None:
        wait_s = self._nodes[route].draw(node)
        if wait_s:
            raise self._too_many(route, node, wait_s)

    def _too_many(self, what: str, sender: str, wait_s: float) -> TooManyError:
        if not self._lines.draw(f"{what} {sender}"):
            _log.warning("rate_limited", what=what, sender=sender, again_s=round(wait_s, 1))
        return TooManyError(f"too many requests from {sender} ({what}); try again in {wait_s:.1f} s", wait_s)


def network_of(address: str) -> str:
    """Return the network whose unknown tokens are limited together, too: the /64 of an IPv6 address, or the address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(parsed), _IPV6_NETWORK), strict=False))
