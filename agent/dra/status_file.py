"""The status file that the driver's probes read, because the driver may not listen on any port."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import structlog

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
READY = "ready"


@dataclass(slots=True)
class StatusFile:
    """One line: `ready`, or why no devices are published. Its modification time shows that the driver is alive.

    Failures are only logged, because claims do not need the file. On a full disk, it is empty, which means that the
    driver is alive but not ready.
    """

    path: Path
    text: str = field(default="starting", init=False)
    _written: str = field(default="", init=False)
    _problem: str = field(default="", init=False)

    def set(self, text: str) -> None:
        """Write a new state."""
        self.text = text
        self.touch()

    def touch(self) -> None:
        """Update the modification time, and the text if it is not written yet."""
        try:
            if self.text == self._written:
                os.utime(self.path)
            else:
                self._write()
            self._problem = ""
        except OSError as error:
            self._written = ""
            problem = f"cannot write {self.path}: {error.strerror}"
            if problem != self._problem:
                _LOG.warning("status_not_written", message=problem)
            self._problem = problem

    def _write(self) -> None:
        self.path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        self.path.write_text(self.text + "\n")  # in place, because creating a temporary file might need space
        self._written = self.text
