"""Stops downloads before the disk is full."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass

import structlog

from agent.reconciler.activity import Activity
from agent.store.floor import StoreVolume, shortage_message
from agent.store.store import Store
from shared.errors import InsufficientStorage, LarderError

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_EVERY_S = 1.0


@dataclass(slots=True)
class SpaceGuard:
    """Checks free space every second while a download runs; `stop_downloads` stops them all with the reason."""

    store: Store
    volume: StoreVolume
    activity: Activity
    threads: Executor
    stop_downloads: Callable[[InsufficientStorage], None]
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self) -> None:
        """Guard until cancelled."""
        while True:
            await self.sleep(_EVERY_S)
            if not self.activity.running:
                continue
            try:
                message = await asyncio.get_running_loop().run_in_executor(self.threads, self._shortage_message)
            except LarderError as error:
                _LOG.warning("free_space_not_read", reason=error.reason, message=str(error))
                continue
            if message:
                self.stop_downloads(InsufficientStorage(message))

    def _shortage_message(self) -> str:
        return shortage_message(self.store.space.free_bytes(), self.volume.floor_bytes(self.store.space.disk_bytes()))
