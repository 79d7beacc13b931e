"""Faults to inject into the hub."""

import threading
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Truncate:
    """Close the connection after `after_bytes` of a longer body."""

    after_bytes: int


@dataclass(frozen=True)
class Stall:
    """Stop sending after `after_bytes` of a body, until the faults are cleared or the hub stops."""

    after_bytes: int


@dataclass(frozen=True)
class Corrupt:
    """Invert the byte at `offset` of the file, whatever range is requested."""

    offset: int = 0


@dataclass(frozen=True)
class Refuse:
    """Answer with this status; 429 and 503 may send a Retry-After of `retry_after_s`."""

    status: int
    retry_after_s: float | None = None


Fault = Truncate | Stall | Corrupt | Refuse


@dataclass
class Rule:
    """A fault for requests whose path matches `path` (fnmatch), for `times` requests (None: always)."""

    fault: Fault
    path: str = "*"
    times: int | None = None


class Faults:
    """The active rules; may be changed while requests are served."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._cleared = threading.Event()

    def add(self, fault: Fault, path: str = "*", times: int | None = None) -> None:
        """Activate a fault, which takes precedence over earlier ones."""
        with self._lock:
            self._rules.insert(0, Rule(fault, path, times))

    def clear(self) -> None:
        """Remove all faults, and end the stalls."""
        with self._lock:
            self._rules.clear()
            self._cleared.set()
            self._cleared = threading.Event()

    def wait_cleared(self) -> None:
        """Wait until the present faults are cleared."""
        with self._lock:
            if not self._rules:
                return
            cleared = self._cleared
        cleared.wait()

    def take_refusal(self, path: str) -> Refuse | None:
        """Return the refusal for a request and count it as used."""
        fault = self._take(path, (Refuse,))
        return fault if isinstance(fault, Refuse) else None

    def take_body_fault(self, path: str) -> Truncate | Stall | Corrupt | None:
        """Return the fault for a body and count it as used."""
        fault = self._take(path, (Truncate, Stall, Corrupt))
        return None if isinstance(fault, Refuse) else fault

    def _take(self, path: str, kinds: tuple[type[Fault], ...]) -> Fault | None:
        with self._lock:
            for rule in self._rules:
                if isinstance(rule.fault, kinds) and rule.times != 0 and fnmatchcase(path, rule.path):
                    rule.times = None if rule.times is None else rule.times - 1
                    return rule.fault
        return None
