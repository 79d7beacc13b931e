"""Collections are read page by page."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from shared.kube.cache import Cache
from shared.kube.collection import list_objects
from shared.kube.objects import Object
from shared.kube.reflector import Reflector
from tests.builders.api_server import connected

PATH = "/api/v1/pods"
LARGEST_BYTES = 1_500_000  # what etcd stores in one object
MAX_BYTES = 100_000_000  # several lists run at the same time, in a container with 1 GiB


class Pages:
    """A collection of two pages of one object each, which records how many a page may have."""

    def __init__(self) -> None:
        self.limits: list[int] = []

    async def answer(self, request: web.Request) -> web.Response:
        if "watch" in request.query:
            return web.json_response({})  # as a server that ends the watch at once
        self.limits.append(int(request.query["limit"]))
        token = "" if request.query.get("continue") else "next"
        name = "b" if request.query.get("continue") else "a"
        listed = {"metadata": {"continue": token, "resourceVersion": "1"}, "items": [{"metadata": {"name": name}}]}
        return web.json_response(listed)


@pytest.fixture
def collection() -> Pages:
    return Pages()


async def test_a_page_of_the_largest_objects_fits_into_memory(collection: Pages, tmp_path: Path) -> None:
    """Tenants can write hundreds of objects of that size, in one namespace."""
    async with connected(collection.answer, tmp_path) as kube:
        assert [found.metadata.name for found in await list_objects(kube, PATH, Object)] == ["a", "b"]
    assert len(collection.limits) == 2
    assert max(collection.limits) * LARGEST_BYTES < MAX_BYTES


async def test_a_reflector_reads_pages_of_the_same_size(collection: Pages, tmp_path: Path) -> None:
    async with connected(collection.answer, tmp_path) as kube:
        cache = Cache[Object](lambda *_: None)
        reflector = Reflector(kube, PATH, Object, cache, lambda *_: None)
        running = asyncio.create_task(reflector.run())
        await reflector.synced.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert len(cache) == 2
    assert max(collection.limits) * LARGEST_BYTES < MAX_BYTES
