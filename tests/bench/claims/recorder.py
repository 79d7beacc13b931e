"""Records when claims are created, from a watch in its own thread."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from shared.api.core import PersistentVolumeClaim
from shared.kube.errors import KubeError
from shared.kube.transport import connect

_CLAIMS = "/api/v1/persistentvolumeclaims"
_IDLE_S = 3600.0
_AGAIN_S = 0.2


class CreatedClaim(NamedTuple):
    """A claim, and the seconds of the monotonic clock at which its creation was seen."""

    at_s: float
    namespace: str
    name: str
    uid: str


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: PersistentVolumeClaim


class ClaimRecorder:
    """Records creations in the order of etcd; use as a context manager, started while no claim exists."""

    def __init__(self, kubeconfig: Path) -> None:
        self.created: list[CreatedClaim] = []
        self._kubeconfig, self._version = kubeconfig, "0"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="claim-recorder", daemon=True)
        self._stop = asyncio.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        recording = asyncio.create_task(self._record())
        await self._stop.wait()
        recording.cancel()
        await asyncio.wait([recording])

    async def _record(self) -> None:
        """Follow the claims, also after the API server has restarted."""
        async with connect(self._kubeconfig) as kube:
            while True:
                try:
                    query = {"watch": "true", "resourceVersion": self._version}
                    async with kube.watch(_CLAIMS, query, _IDLE_S) as lines:
                        await self._follow(lines)
                except KubeError:
                    await asyncio.sleep(_AGAIN_S)

    async def _follow(self, lines: AsyncIterator[bytes]) -> None:
        async for line in lines:
            event = msgspec.json.decode(line, type=_Event)
            meta = event.object.metadata
            self._version = meta.resource_version
            if event.type == "ADDED":
                self.created.append(CreatedClaim(time.monotonic(), meta.namespace, meta.name, meta.uid))
