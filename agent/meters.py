"""How far the running downloads are: written by their threads, read by the loop."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import structlog

from agent.client import ControllerApi
from agent.stock.world import Key, Trouble
from agent.transfer.progress import Progress
from shared.api.wire import EntryProgress, ProgressReport
from shared.errors import LarderError

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_EVERY_S = 1.0
_AFTER_REFUSAL_S = 5.0


@dataclass(slots=True)
class Meters:
    """Every download that runs, and the bytes that all have brought since the start."""

    running: dict[Key, Progress] = field(default_factory=dict)
    _settled: int = 0

    def start(self, key: Key) -> Progress:
        """Return the progress of a new download."""
        progress = self.running[key] = Progress()
        return progress

    def end(self, key: Key, moved: int) -> None:
        """Forget a download; `moved` bytes of it came over the network."""
        self.running.pop(key, None)
        self._settled += moved

    @property
    def downloaded(self) -> int:
        """The bytes of the downloads that ended."""
        return self._settled

    def troubles(self) -> Mapping[Key, Trouble]:
        """Return what each download is trying again just now."""
        found = ((key, progress.trouble) for key, progress in self.running.items())
        return {key: Trouble(error.reason, str(error)) for key, error in found if error}

    def report(self) -> ProgressReport:
        """Return where every download is."""
        return ProgressReport(
            tuple(EntryProgress(k[0], k[1], p.done, p.total, round(p.rate())) for k, p in self.running.items())
        )


@dataclass(slots=True)
class ProgressTeller:
    """Tells the controller every second while something runs, and the loop when a download's trouble changes."""

    meters: Meters
    api: ControllerApi
    on_trouble: Callable[[], None]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self) -> None:
        """Ends only by cancellation; downloads go on when nobody listens."""
        before: Mapping[Key, Trouble] = {}
        pause_s = _EVERY_S
        while True:
            await self.sleep(pause_s)
            troubles = self.meters.troubles()
            if troubles != before:
                self.on_trouble()
            before = troubles
            pause_s = await self._tell()

    async def _tell(self) -> float:
        report = self.meters.report()
        if not report.entries:
            return _EVERY_S
        try:
            await self.api.report(report)
        except LarderError as error:
            _LOG.warning("progress not reported", reason=error.reason, message=str(error))
            return _AFTER_REFUSAL_S
        return _EVERY_S
