"""Requests to an application: how many with which answer, and how much of a body is read."""

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import Request
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


class BodyTooLargeError(Exception):
    """The body is larger than any message."""


async def read_body(request: Request, most_bytes: int) -> bytes:
    """Return the body; what is announced or sent beyond `most_bytes` is never kept. Raises BodyTooLargeError."""
    parts, size = list[bytes](), 0
    async for part in request.stream():
        size += len(part)
        if size > most_bytes:
            raise BodyTooLargeError(f"the body has more than {most_bytes} bytes")
        parts.append(part)
    return b"".join(parts)
