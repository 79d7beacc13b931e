"""What can be made to go wrong on purpose."""

import threading
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Truncate:
    """Close the connection after `after_bytes` of a body whose length promised more."""

    after_bytes: int


@dataclass(frozen=True)
class Stall:
    """Send `after_bytes` of a body and then nothing, until the faults are cleared or the hub stops."""

    after_bytes: int


@dataclass(frozen=True)
class Corrupt:
    """Invert the byte at `offset` of the file, whichever range is asked for."""

    offset: int = 0


@dataclass(frozen=True)
class Refuse:
    """Answer with this status; 429 and 503 may ask to come back after `retry_after_s`."""

    status: int
    retry_after_s: float | None = None


Fault = Truncate | Stall | Corrupt | Refuse


@dataclass
class Rule:
    """A fault for requests whose path fits `path` (as in fnmatch), `times` times (None: always)."""

    fault: Fault
    path: str = "*"
    times: int | None = None


class Faults:
    """The rules in force; safe to change while requests are served."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._cleared = threading.Event()

    def add(self, fault: Fault, path: str = "*", times: int | None = None) -> None:
        """Put a fault in force, before those already there."""
        with self._lock:
            self._rules.insert(0, Rule(fault, path, times))

    def clear(self) -> None:
        """End all faults, and the stalls that wait."""
        with self._lock:
            self._rules.clear()
            self._cleared.set()
            self._cleared = threading.Event()

    def wait_cleared(self) -> None:
        """Return when the faults in force now have been cleared."""
        with self._lock:
            if not self._rules:
                return
            cleared = self._cleared
        cleared.wait()

    def take_refusal(self, path: str) -> Refuse | None:
        """Use up and return the refusal that applies to a request."""
        fault = self._take(path, (Refuse,))
        return fault if isinstance(fault, Refuse) else None

    def take_body_fault(self, path: str) -> Truncate | Stall | Corrupt | None:
        """Use up and return the fault that applies to a body."""
        fault = self._take(path, (Truncate, Stall, Corrupt))
        return None if isinstance(fault, Refuse) else fault

    def _take(self, path: str, kinds: tuple[type[Fault], ...]) -> Fault | None:
        with self._lock:
            for rule in self._rules:
                if isinstance(rule.fault, kinds) and rule.times != 0 and fnmatchcase(path, rule.path):
                    rule.times = None if rule.times is None else rule.times - 1
                    return rule.fault
        return None
