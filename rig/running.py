"""Components of the rig that run during a `with` block."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


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
