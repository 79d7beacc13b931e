"""Asks the pods of downloads how far they are, outside the queue: a pod belongs to a tenant and may answer slowly."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import msgspec

from controller.jobs.observed_jobs import JobPod
from controller.sources.fair_slots import FairSlots
from shared.decode_errors import DECODE_ERRORS
from shared.download_report import PROGRESS_PORT, DownloadProgress


class _Key(Hashable, Protocol):
    """The key of an object in a namespace."""

    @property
    def namespace(self) -> str: ...


K = TypeVar("K", bound=_Key)
_LONGEST_LINE_BYTES = 256
_TIMEOUT_S = 2.0


async def read_progress(address: str, port: int = PROGRESS_PORT) -> DownloadProgress | None:
    """Return the progress that a pod reports; None if there is no valid answer in time. Sends nothing."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(address, port, limit=_LONGEST_LINE_BYTES)
            try:
                line = await reader.readline()
            finally:
                writer.close()
        return msgspec.json.decode(line, type=DownloadProgress)
    except (OSError, TimeoutError, ValueError, *DECODE_ERRORS):
        return None


@dataclass(slots=True)
class ProgressReader(Generic[K]):
    """Remembers the last report of each download's pod, and refreshes it in the background when it is read.

    Args:
        clock: Seconds of the event loop.
        on_change: Called with the key of the download whose percentage rose.
        read: Asks the pod at an address.
    """

    clock: Callable[[], float]
    on_change: Callable[[K], None]
    read: Callable[[str], Awaitable[DownloadProgress | None]] = read_progress
    _percent: dict[K, tuple[str, int]] = field(default_factory=dict, init=False)
    _asking: dict[K, asyncio.Task[None]] = field(default_factory=dict, init=False)
    _slots: FairSlots = field(init=False)

    def __post_init__(self) -> None:
        self._slots = FairSlots(8, self.clock)

    def percent_of(self, key: K, pods: Sequence[JobPod]) -> int:
        """Return the last known percentage of the running pod, and ask it again."""
        pod = next((pod for pod in pods if pod.status.phase == "Running" and pod.status.pod_ip), None)
        if pod is None:
            return 0
        if key not in self._asking:
            task = self._asking[key] = asyncio.create_task(self._ask(key, pod))
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        uid, percent = self._percent.get(key, ("", 0))
        return percent if uid == pod.metadata.uid else 0

    def forget(self, key: K) -> None:
        """Forget a download."""
        self._percent.pop(key, None)

    async def stop(self) -> None:
        """Stop asking, because another replica leads."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*asking, return_exceptions=True)
        self._percent.clear()

    async def _ask(self, key: K, pod: JobPod) -> None:
        async with self._slots.slot(key.namespace):
            found = await self.read(pod.status.pod_ip)
        if found is None:
            return
        uid, before = self._percent.get(key, ("", 0))
        if uid != pod.metadata.uid or found.percent > before:  # never falls, so a pod cannot keep requeuing its owner
            self._percent[key] = pod.metadata.uid, found.percent
            self.on_change(key)
