"""A budget for lines: urgent lines displace others, and everything dropped is counted."""

from collections.abc import Iterator
from dataclasses import dataclass, field

_NEARLY_FULL = 0.98  # of the budget: most objects are larger than what is left then


@dataclass(slots=True)
class LineBudget:
    """Lines of at most `max_bytes` in total; `left_out` counts those that did not fit."""

    max_bytes: int
    left_out: int = field(default=0, init=False)
    _urgent: list[bytes] = field(default_factory=list, init=False)
    _others: list[bytes] = field(default_factory=list, init=False)
    _used_bytes: int = field(default=0, init=False)

    def has_room(self, *, urgent: bool) -> bool:
        """Return whether a line could be added; if not, it is counted as left out and need not be built."""
        if self._used_bytes < self.max_bytes * _NEARLY_FULL or (urgent and self._others):
            return True
        self.left_out += 1
        return False

    def put(self, line: bytes, *, urgent: bool) -> None:
        """Add a line; an urgent one displaces others if the budget is full."""
        while urgent and self._others and self._used_bytes + len(line) > self.max_bytes:
            self._used_bytes -= len(self._others.pop())
            self.left_out += 1
        if self._used_bytes + len(line) > self.max_bytes:
            self.left_out += 1
            return
        (self._urgent if urgent else self._others).append(line)
        self._used_bytes += len(line)

    def __iter__(self) -> Iterator[bytes]:
        yield from self._urgent
        yield from self._others

    def __len__(self) -> int:
        return len(self._urgent) + len(self._others)
