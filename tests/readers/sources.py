"""Reading a file of a source to its end."""

from shared.manifest import File
from shared.sources.port import Source


def drain(source: Source, file: File, offset: int = 0, length: int | None = None, buffer_bytes: int = 2**20) -> bytes:
    """Return the bytes of a file from a source, read in parts of at most `buffer_bytes`."""
    buffer, parts = memoryview(bytearray(buffer_bytes)), []
    body = source.open(file, offset, length)
    try:
        while size := body.readinto(buffer):
            parts.append(bytes(buffer[:size]))
    finally:
        body.close()
    return b"".join(parts)
