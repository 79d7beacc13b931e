"""HTTP/1.1 with limits: a connection whose request does not arrive in time is closed."""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from shared.server.joined_writes import JoinedWrites

PEER_CERTIFICATE = "peer_certificate"  # in the state of a request; empty without a verified certificate


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of one server; an idle TLS connection takes about 280 KiB.

    Args:
        request_s: The seconds that a whole request may take to arrive.
        connections: The limit on connections; beyond it, the one that has waited longest for a request is closed.
        idle_s: The seconds that a connection stays open between two requests. API server and scheduler close idle
            connections after 90 seconds. If this server closed them first, a request sent at that moment would be lost,
            and Go does not repeat a POST: the user would get "failed calling webhook: EOF".
    """

    request_s: float = 10.0
    connections: int = 2000
    idle_s: int = 120
    waiting: dict["LimitedProtocol", None] = field(default_factory=dict)  # in the order in which they began to wait


class LimitedProtocol(H11Protocol):
    """Closes connections that do not deliver a whole request in time, even if they keep sending small pieces.

    uvicorn alone waits forever for a first request, and for a body that does not end.
    """

    def __init__(self, *args: Any, limits: ServerLimits, **fields: Any) -> None:  # noqa: ANN401 - uvicorn's own
        super().__init__(*args, **fields)
        self._limits = limits
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Start waiting for a request."""
        super().connection_made(transport)
        self.transport = JoinedWrites(transport, self.loop)  # type: ignore[assignment]  # as far as it is used
        self.app_state = {**self.app_state, PEER_CERTIFICATE: transport.get_extra_info("peercert") or {}}
        self._expect()
        if len(self.connections) > self._limits.connections:
            next(iter(self._limits.waiting)).transport.abort()

    def data_received(self, data: bytes) -> None:
        """Process data; data after a response belongs to the next request."""
        if not self._is_answering:
            self._expect()
        super().data_received(data)
        if self._is_answering and not self.cycle.more_body:
            self._expect_nothing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._expect_nothing()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Allow closing the connection in favour of others, unless its next request has already arrived."""
        super().on_response_complete()
        if self._deadline is None and not self._is_answering and not self.transport.is_closing():
            self._limits.waiting[self] = None

    @property
    def _is_answering(self) -> bool:
        """Return whether a request has arrived and is not fully answered; uvicorn has no cycle before the first."""
        return bool(self.cycle) and not self.cycle.response_complete

    def _expect(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self._limits.request_s, self.transport.abort)
            self._limits.waiting.pop(self, None)  # moves it to the end of the order
            self._limits.waiting[self] = None

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._limits.waiting.pop(self, None)


def limited_protocol(limits: ServerLimits) -> type[asyncio.Protocol]:
    """Return the protocol with these limits, for uvicorn's `http`."""
    return partial(LimitedProtocol, limits=limits)  # type: ignore[return-value]  # uvicorn only calls it, as a class
