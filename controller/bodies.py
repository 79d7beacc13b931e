"""Bodies of requests, read as far as they may go."""

from fastapi import Request


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
