"""Authenticates agents by their pod-bound token, on the node that the token names."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controller.state.cluster_state import ClusterState
from shared.api.core import NODES, Node
from shared.kube.collection import decode, get_object
from shared.kube.transport import Kube

_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_NODE_NAME = "authentication.kubernetes.io/node-name"
_NODE_UID = "authentication.kubernetes.io/node-uid"
_POD_UID = "authentication.kubernetes.io/pod-uid"
_RECENT_S = 30.0
_MAX_RECENT = 20_000
_LONGEST_TOKEN = 16 * 1024


class DeniedError(Exception):
    """The token does not belong to an agent on a live node."""


@dataclass(frozen=True, slots=True)
class AgentIdentity:
    """An agent, identified by its token."""

    node: str
    node_uid: str


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    extra: dict[str, list[str]] = {}


class _ReviewStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    audiences: list[str] = []
    error: str = ""
    user: _User = _User()


class _Review(msgspec.Struct, frozen=True):
    status: _ReviewStatus = _ReviewStatus()


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Reviews tokens through the API server."""

    kube: Kube
    cluster: ClusterState
    username: str  # system:serviceaccount:NAMESPACE:NAME of the agents
    audience: str
    clock: Callable[[], float]
    _recent: dict[bytes, tuple[float, AgentIdentity]] = field(default_factory=dict, init=False)

    async def agent_of(self, header: str) -> AgentIdentity:
        """Review the token of an Authorization header; return and remember its agent. Raises DeniedError, KubeError."""
        fingerprint = _fingerprint(header)
        try:
            agent = await self._review(header)
        except DeniedError:
            self._recent.pop(fingerprint, None)
            raise
        now = self.clock()
        self._remember(fingerprint, (now + _RECENT_S, agent), now)
        return agent

    def remembered(self, header: str) -> AgentIdentity | None:
        """Return the agent whose token was reviewed within the last `_RECENT_S` seconds, or None."""
        known = self._recent.get(_fingerprint(header))
        return known[1] if known is not None and known[0] > self.clock() else None

    async def _review(self, header: str) -> AgentIdentity:
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise DeniedError("no bearer token; agents send the token that is projected into their pod")
        if len(token) > _LONGEST_TOKEN or not token.isascii():
            raise DeniedError("the Authorization header does not contain a valid token")
        spec: dict[str, Any] = {"token": token.strip(), "audiences": [self.audience]}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        review = decode(await self.kube.request("POST", _REVIEWS, body=body), _Review)
        return await self._verify(review.status)

    def _remember(self, fingerprint: bytes, known: tuple[float, AgentIdentity], now: float) -> None:
        if len(self._recent) >= _MAX_RECENT:
            kept = {m: k for m, k in self._recent.items() if k[0] > now}
            self._recent.clear()
            self._recent.update(kept if len(kept) < _MAX_RECENT else {})
        self._recent[fingerprint] = known

    async def _verify(self, status: _ReviewStatus) -> AgentIdentity:
        if not status.authenticated or self.audience not in status.audiences:
            raise DeniedError(f"the token is not accepted for audience {self.audience!r}: {status.error}")
        if status.user.username != self.username:
            raise DeniedError(f"{status.user.username} is not the agents' service account")
        node, uid, pod = (next(iter(status.user.extra.get(key, [])), "") for key in (_NODE_NAME, _NODE_UID, _POD_UID))
        if not node or not pod:
            raise DeniedError("the token is not bound to a pod on a node")
        live_uid = await self._live_uid(node, uid)
        if uid and uid != live_uid:
            raise DeniedError(f"the token belongs to an earlier node named {node}")
        return AgentIdentity(node, live_uid)

    async def _live_uid(self, name: str, expected: str) -> str:
        """Return the uid of a Node, read live unless the cached one is as expected."""
        known = self.cluster.node(name)
        if known is not None and known.metadata.uid == expected:
            return expected
        node = await get_object(self.kube, f"{NODES}/{name}", Node)
        if node is None:
            raise DeniedError(f"there is no node {name}")
        return node.metadata.uid


def _fingerprint(header: str) -> bytes:
    """Return a fingerprint of a token, so that the token itself is not stored."""
    return hashlib.sha256(header.encode()).digest()
