"""Components of the rig that run during a `with` block."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from rig.processes import Process


class Running(ABC):
    """Started on entering a block and stopped on leaving it, even if starting fails half-way."""

    @abstractmethod
    def start(self) -> None:
        """Start everything and wait until it is usable."""

    @abstractmethod
    def stop(self) -> None:
        """Stop whatever was started; harmless if nothing runs."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class RunningProcess(Running):
    """A component with one program; what it created elsewhere, such as objects in the API server, stays."""

    _process: Process | None = None

    def stop(self) -> None:
        """Stop the program."""
        if self._process is not None:
            self._process.stop()

    @property
    def pid(self) -> int:
        """The process id of the program."""
        assert self._process is not None  # noqa: S101 - a property of the running program
        return self._process.pid
