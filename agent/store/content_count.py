"""The store's size on disk, cached because waiting entries ask for it constantly."""

from pathlib import Path

from agent.store.tree import lasting_bytes


class ContentCount:
    """Counts the bytes below a directory, and recounts only when they may have changed. Not thread-safe."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._known: int | None = None
        self._writers = 0

    def read(self) -> int:
        """Return the size in bytes. Raises OSError."""
        if self._known is None or self._writers:
            self._known = lasting_bytes(self._top)
        return self._known

    def forget(self) -> None:
        """Recount on the next read: something was removed, or others may have written."""
        self._known = None

    def begin_writing(self) -> None:
        """Recount on every read until `end_writing` has been called as many times."""
        self._writers += 1

    def end_writing(self) -> None:
        """End one `begin_writing`."""
        self._writers -= 1
        self._known = None
