"""The status file that the driver's probes read, because the driver may not listen on any port."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from shared.errors import StoreFailure

READY = "ready"


@dataclass(slots=True)
class StatusFile:
    """One line: `ready`, or why no devices are published. Its modification time shows that the driver is alive."""

    path: Path
    clock: Callable[[], float] = time.time
    text: str = field(default="starting", init=False)

    def set(self, text: str) -> None:
        """Write a new state."""
        self.text = text
        self.touch()

    def touch(self) -> None:
        """Rewrite the file, which updates its modification time. Raises StoreFailure."""
        tmp = self.path.with_suffix(".tmp")
        try:
            self.path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            tmp.write_text(self.text + "\n")
            tmp.replace(self.path)
        except OSError as error:
            raise StoreFailure(f"cannot write {self.path}: {error.strerror}") from error
