"""ASGI helpers: request counts by status, and bounded request bodies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CountRequests:
    """ASGI middleware that passes the route's template (never the actual path) and the status to `count`."""

    app: ASGIApp
    count: Callable[[str, int], None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward everything, and read the status from the first message of the response."""

        async def counting_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.count(getattr(scope.get("route"), "path", _UNKNOWN), message["status"])
            await send(message)

        await self.app(scope, receive, counting_send)


@dataclass(frozen=True, slots=True)
class ByPrefix:
    """ASGI application that passes requests to the application of their path's prefix, others to `default`."""

    apps: Mapping[str, ASGIApp]
    default: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request."""
        path = scope.get("path", "")
        app = next((app for prefix, app in self.apps.items() if path.startswith(prefix)), self.default)
        await app(scope, receive, send)


class BodyTooLargeError(Exception):
    """The request body is larger than any valid message."""


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Return the request body, never buffering more than `max_bytes`.

    Raises:
        BodyTooLargeError: The announced or received length exceeds `max_bytes`.
    """
    parts, size = list[bytes](), 0
    async for part in request.stream():
        size += len(part)
        if size > max_bytes:
            raise BodyTooLargeError(f"the request body exceeds {max_bytes} bytes")
        parts.append(part)
    return b"".join(parts)
