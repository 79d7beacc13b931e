"""Parts of the rig that run for the time of a `with` block."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Running(ABC):
    """What is started by entering a block and stopped by leaving it, also where starting fails half-way."""

    @abstractmethod
    def start(self) -> None:
        """Start everything and return when it can be used."""

    @abstractmethod
    def stop(self) -> None:
        """End what was started, as far as that came; harmless when nothing runs."""

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
