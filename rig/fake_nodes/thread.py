"""Nodes for blocking code: their heartbeats run in a thread."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rig.fake_nodes.fake_kubelet import FakeKubelet
from rig.fake_nodes.manifests import NodeSpec
from shared.kube.errors import KubeError
from shared.kube.transport import connect

_CALL_S = 120.0
_USER_AGENT = "rig-nodes"


class Nodes:
    """A FakeKubelet in a thread; use as a context manager. Added nodes are removed at the end."""

    def __init__(self, kubeconfig: Path, *, beat_s: float = 2.0) -> None:
        self._kubeconfig, self._beat_s = kubeconfig, beat_s
        self._started: Future[tuple[FakeKubelet, asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=self._work, name="rig-nodes", daemon=True)
        self._added: set[str] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._kubelet, self._loop, self._end = self._started.result(_CALL_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with contextlib.suppress(KubeError):  # the control plane may stop first
                for name in sorted(self._added):
                    self.remove(name)
        finally:
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join()

    def add(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """Create a Node and start its heartbeat."""
        self._added.add(name)
        self._call(self._kubelet.add(NodeSpec(name, labels or {})))

    @contextlib.contextmanager
    def lost(self, name: str) -> Iterator[None]:
        """Stop the heartbeat of a node, and resume it at the end."""
        self._call(_lose(self._kubelet, name))
        try:
            yield
        finally:
            self._call(self._kubelet.revive(name))

    def remove(self, name: str) -> None:
        """Delete a Node."""
        self._added.discard(name)
        self._call(self._kubelet.remove(name))

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_S)

    def _work(self) -> None:
        try:
            asyncio.run(self._live())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _live(self) -> None:
        end = asyncio.Event()
        async with connect(self._kubeconfig, user_agent=_USER_AGENT) as kube:
            kubelet = FakeKubelet(kube, self._beat_s)
            beating = asyncio.create_task(kubelet.run())
            self._started.set_result((kubelet, asyncio.get_running_loop(), end))
            ended = asyncio.create_task(end.wait())
            await asyncio.wait((beating, ended), return_when=asyncio.FIRST_COMPLETED)
            for task in (beating, ended):
                task.cancel()
            await asyncio.gather(beating, ended, return_exceptions=True)


async def _lose(kubelet: FakeKubelet, name: str) -> None:
    kubelet.lose(name)
