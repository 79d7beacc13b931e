"""Counts what an application is asked and what it answered."""

from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CountRequests:
    """ASGI middleware: tells `count` the template of the route, never the path itself, and the status of the answer."""

    app: ASGIApp
    count: Callable[[str, int], None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass everything on, and look at the answers' first messages."""

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.count(getattr(scope.get("route"), "path", _UNKNOWN), message["status"])
            await send(message)

        await self.app(scope, receive, tell)
