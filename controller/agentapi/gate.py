"""Who may come in: an agent with a good token, that does not ask too often."""

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from controller.agentapi.authenticate import AgentIdentity, Authenticator
from controller.sources.buckets import Buckets, Rate
from shared.kube.errors import KubeError

# For each node and replica. An agent asks once a download for credentials, once a revision for a manifest, and tells
# its progress every second while something runs. No wait is longer than a second: that is what Retry-After says.
RATES: Mapping[str, Rate] = {"credentials": Rate(1, 20), "manifests": Rate(5, 100), "progress": Rate(5, 20)}
STRANGERS = Rate(1, 60)  # for each address: tokens that are not known yet, and then turn out to be bad
_ONE_LINE_A_MINUTE = Rate(1 / 60, 1)
_IPV6_SITE = 64
_log = structlog.get_logger()


class TooManyError(Exception):
    """Somebody asks too often, and may come again in `after_s` seconds."""

    def __init__(self, message: str, after_s: float) -> None:
        super().__init__(message)
        self.after_s = after_s


@dataclass(slots=True)
class RequestGuard:
    """Counts requests by the node that a token is known to be of, and by the address where it is not known.

    A token is known for half a minute: a flood of good ones is stopped before it costs a TokenReview each, and so is a
    flood of bad ones, by the address.
    """

    authenticator: Authenticator
    clock: Callable[[], float]
    _strangers: Buckets = field(init=False)
    _nodes: dict[str, Buckets] = field(init=False)
    _lines: Buckets = field(init=False)

    def __post_init__(self) -> None:
        self._strangers, self._lines = Buckets(STRANGERS, self.clock), Buckets(_ONE_LINE_A_MINUTE, self.clock)
        self._nodes = {route: Buckets(rate, self.clock) for route, rate in RATES.items()}

    async def admit(self, route: str, header: str, address: str, *, reviewed: bool) -> AgentIdentity:
        """Return who sent an Authorization header; `reviewed` asks the API server each time, for what gives values.

        Raises TooManyError, DeniedError, KubeError.
        """
        known = self.authenticator.remembered(header)
        if known is None:
            known = await self._introduce(header, address)
            self._draw(route, known.node)
            return known
        self._draw(route, known.node)
        return await self.authenticator.agent_of(header) if reviewed else known

    async def _introduce(self, header: str, address: str) -> AgentIdentity:
        """Review a token that is new; only a bad one is held against its address."""
        place = site_of(address)
        wait_s = self._strangers.draw(place)
        if wait_s:
            raise self._too_many("unknown tokens", place, wait_s)
        try:
            agent = await self.authenticator.agent_of(header)
        except KubeError:
            self._strangers.give_back(place)
            raise
        self._strangers.give_back(place)
        return agent

    def _draw(self, route: str, node: str) -> None:
        wait_s = self._nodes[route].draw(node)
        if wait_s:
            raise self._too_many(route, node, wait_s)

    def _too_many(self, what: str, sender: str, wait_s: float) -> TooManyError:
        if not self._lines.draw(f"{what} {sender}"):
            _log.warning("rate_limited", what=what, sender=sender, again_s=round(wait_s, 1))
        return TooManyError(f"{sender} asks too often ({what}); try again in {wait_s:.1f} s", wait_s)


def site_of(address: str) -> str:
    """Return what is counted as one address: of IPv6 a whole /64, for a single host has that many."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(parsed), _IPV6_SITE), strict=False))
