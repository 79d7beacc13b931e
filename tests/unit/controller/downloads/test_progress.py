"""The controller reads the progress of pods without waiting for them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from controller.downloads.progress import ProgressReader, read_progress
from controller.modelcaches.keys import ModelCacheKey
from rig.ports import free_port
from shared.download_report import DownloadProgress
from tests.builders.model_caches import pod

KEY = ModelCacheKey("team", "llama")
RUNNING = msgspec.structs.replace(
    pod("Running"), status=msgspec.structs.replace(pod("Running").status, pod_ip="10.0.0.1")
)


async def test_progress_is_read_in_the_background_and_wakes_the_cache() -> None:
    woken = asyncio.Queue[ModelCacheKey]()

    async def read(address: str) -> DownloadProgress:
        assert address == "10.0.0.1"
        return DownloadProgress(50, 100)

    reader = ProgressReader(asyncio.get_running_loop().time, woken.put_nowait, read)
    assert reader.percent_of(KEY, [RUNNING]) == 0
    assert await asyncio.wait_for(woken.get(), 5) == KEY
    assert reader.percent_of(KEY, [RUNNING]) == 50
    assert reader.percent_of(KEY, []) == 0
    await reader.stop()


async def test_only_growing_progress_wakes_the_cache() -> None:
    answers = iter((50, 10, 50, 55))
    woken = list[ModelCacheKey]()

    async def read(_: str) -> DownloadProgress:
        return DownloadProgress(next(answers), 100)

    reader = ProgressReader(asyncio.get_running_loop().time, woken.append, read)
    seen = list[int]()
    for _ in range(4):
        reader.percent_of(KEY, [RUNNING])
        for _ in range(5):
            await asyncio.sleep(0)
        seen.append(len(woken))
    assert seen == [1, 1, 1, 2]
    await reader.stop()


async def test_a_hanging_pod_is_asked_for_its_progress_only_once() -> None:
    asked = list[str]()

    async def read(address: str) -> None:
        asked.append(address)
        await asyncio.Event().wait()

    reader = ProgressReader[ModelCacheKey](asyncio.get_running_loop().time, lambda _: None, read)
    for _ in range(3):
        assert reader.percent_of(KEY, [RUNNING]) == 0
        await asyncio.sleep(0)
    assert asked == ["10.0.0.1"]
    await reader.stop()


@asynccontextmanager
async def answering(body: bytes, port: int) -> AsyncIterator[None]:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", port):
        yield


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"done": 1, "total": 2}\n', DownloadProgress(1, 2)),
        (b"x" * 10_000, None),
        (b"", None),
        (b'{"done": "a"}\n', None),
    ],
)
async def test_only_a_short_and_valid_answer_of_a_pod_is_read(body: bytes, found: DownloadProgress | None) -> None:
    port = free_port()
    async with answering(body, port):
        assert await read_progress("127.0.0.1", port) == found


async def test_a_pod_that_does_not_listen_reports_no_progress() -> None:
    assert await read_progress("127.0.0.1", free_port()) is None
