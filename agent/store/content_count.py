"""How many bytes a store takes, for those who wait for room and ask all the time."""

from pathlib import Path

from agent.store.tree import lasting_bytes


class ContentCount:
    """Counts what is below a directory, anew only where it may have changed since. Not thread-safe."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._known: int | None = None
        self._writers = 0

    def read(self) -> int:
        """Return the bytes. Raises OSError."""
        if self._known is None or self._writers:
            self._known = lasting_bytes(self._top)
        return self._known

    def forget(self) -> None:
        """Count anew at the next question: something was removed, or others may have been here."""
        self._known = None

    def begin_writing(self) -> None:
        """Count anew at every question, until `end_writing` was called as often."""
        self._writers += 1

    def end_writing(self) -> None:
        """End what `begin_writing` began."""
        self._writers -= 1
        self._known = None
