"""Splits a stream of bytes into lines."""

from collections.abc import AsyncGenerator, AsyncIterable

from shared.kube.errors import Malformed


async def split_lines(chunks: AsyncIterable[bytes], limit_bytes: int) -> AsyncGenerator[bytes, None]:
    """Yield each complete line without its line end; raises Malformed for a line longer than `limit_bytes`.

    aiohttp's own reader gives up at twice its read buffer, which is far too small for a large object: Go escapes `<` as
    six characters. An incomplete last line is dropped, because the connection was cut.
    """
    pieces: list[bytes] = []
    size = 0
    async for chunk in chunks:
        head, *tail = chunk.split(b"\n")
        for next_head in tail:
            yield b"".join((*pieces, head))
            pieces, size, head = [], 0, next_head
        pieces.append(head)
        size += len(head)
        if size > limit_bytes:
            raise Malformed(f"a line of the watch has more than {limit_bytes} bytes")
