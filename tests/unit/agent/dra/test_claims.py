"""Claims that are prepared and restored, with an HTTP server in place of the API server."""

import asyncio
import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from aiohttp import web

from agent.dra.allow_list import AllowList
from agent.dra.cdi_edits import PluginEdits
from agent.dra.cdi_files import CdiFiles
from agent.dra.claims import PreparedClaims
from agent.dra.decide import AllocateRequest
from agent.dra.kubelet_claim import KubeletClaim
from agent.dra.observe import PreparationObserver
from agent.dra.plugin_allocator import PluginAllocator
from agent.dra.snapshots import SnapshotScanner
from shared.devices.annotation import ANNOTATION
from shared.dra import DRIVER, FETCH_DEVICE, RESOURCE_CLAIMS, RESOURCES
from tests.builders.api_server import Objects, connected, listed


def _claim(name: str) -> dict[str, Any]:
    result = {"request": "m", "driver": DRIVER, "pool": "n", "device": FETCH_DEVICE}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "p"}],
    }
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"u-{name}"}, "status": status}


def _path(name: str) -> str:
    return f"{RESOURCES}/namespaces/ns/resourceclaims/{name}"


async def test_a_claim_that_is_unprepared_while_claims_are_restored_stays_unprepared(tmp_path: Path) -> None:
    names = {"a", "b"}
    objects = Objects({RESOURCE_CLAIMS: listed(*map(_claim, names))} | {_path(name): _claim(name) for name in names})
    restored: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        name = request.path.rpartition("/")[2]
        if name in names and not restored:
            restored.append(f"u-{name}")
            (other,) = names - {name}
            await claims.unprepare(KubeletClaim("ns", other, f"u-{other}"))
        return await objects.answer(request)

    async with connected(answer, tmp_path) as kube:
        with ThreadPoolExecutor(1) as thread:
            observer = PreparationObserver(kube, "n", "u1", SnapshotScanner(tmp_path), thread)
            claims = PreparedClaims(observer, CdiFiles(tmp_path / "cdi"), AllowList(), PluginAllocator())
            assert await claims.restore()
            assert claims.files.uids() == set(restored)


async def test_a_claim_that_is_prepared_while_claims_are_listed_is_restored_when_its_file_is_lost(
    tmp_path: Path,
) -> None:
    objects = Objects({RESOURCE_CLAIMS: listed(), _path("new"): _claim("new")})

    async def answer(request: web.Request) -> web.Response:
        listing = await objects.answer(request)
        if request.path == RESOURCE_CLAIMS:
            await claims.prepare(KubeletClaim("ns", "new", "u-new"))
        return listing

    async with connected(answer, tmp_path) as kube:
        with ThreadPoolExecutor(1) as thread:
            observer = PreparationObserver(kube, "n", "u1", SnapshotScanner(tmp_path), thread)
            claims = PreparedClaims(observer, CdiFiles(tmp_path / "cdi"), AllowList(), PluginAllocator())
            assert await claims.restore()
            claims.files.remove("u-new")
            assert claims.lost() == {"u-new"}


async def test_a_claim_whose_old_file_is_replaced_while_claims_are_listed_keeps_its_file(tmp_path: Path) -> None:
    """Its pod was created after the list was read. The file is of an earlier pod, which ended without the driver."""
    objects = Objects({RESOURCE_CLAIMS: listed(), _path("new"): _claim("new")})

    async def answer(request: web.Request) -> web.Response:
        listing = await objects.answer(request)
        if request.path == RESOURCE_CLAIMS:
            await claims.unprepare(KubeletClaim("ns", "new", "u-new"))
            await claims.prepare(KubeletClaim("ns", "new", "u-new"))
        return listing

    async with connected(answer, tmp_path) as kube:
        with ThreadPoolExecutor(1) as thread:
            observer = PreparationObserver(kube, "n", "u1", SnapshotScanner(tmp_path), thread)
            claims = PreparedClaims(observer, CdiFiles(tmp_path / "cdi"), AllowList(), PluginAllocator())
            for uid in ("u-new", "u-gone"):
                claims.files.write(uid, {})
            assert await claims.restore()
            assert claims.files.uids() == {"u-new"}
            assert claims.lost() == set()


async def test_a_claim_without_a_pod_keeps_its_file_and_gets_none(tmp_path: Path) -> None:
    """Its pod was deleted by force. Until kubelet has unprepared the claim, it does not prepare it for another pod."""
    claims_here = [_claim(name) for name in ("with", "without")]
    for claim in claims_here:
        claim["status"]["reservedFor"] = []
    async with connected(Objects({RESOURCE_CLAIMS: listed(*claims_here)}).answer, tmp_path) as kube:
        with ThreadPoolExecutor(1) as thread:
            observer = PreparationObserver(kube, "n", "u1", SnapshotScanner(tmp_path), thread)
            claims = PreparedClaims(observer, CdiFiles(tmp_path / "cdi"), AllowList(), PluginAllocator())
            claims.files.write("u-with", {})
            assert await claims.restore()
            assert claims.files.uids() == {"u-with"}


async def test_a_claim_is_unprepared_only_once_it_is_no_longer_being_prepared(tmp_path: Path) -> None:
    """Otherwise, a claim that is prepared again meanwhile leaves a file that nobody removes."""
    objects, arrived, go_on = Objects({_path("a"): _claim("a")}), asyncio.Event(), asyncio.Event()
    reads = itertools.count(1)

    async def answer(request: web.Request) -> web.Response:
        if request.path == _path("a") and next(reads) == 2:
            arrived.set()
            await go_on.wait()
        return await objects.answer(request)

    ref = KubeletClaim("ns", "a", "u-a")
    async with connected(answer, tmp_path) as kube:
        with ThreadPoolExecutor(1) as thread:
            observer = PreparationObserver(kube, "n", "u1", SnapshotScanner(tmp_path), thread)
            claims = PreparedClaims(observer, CdiFiles(tmp_path / "cdi"), AllowList(), PluginAllocator())
            async with asyncio.TaskGroup() as group:
                for call in (claims.prepare, claims.unprepare, claims.prepare):
                    group.create_task(call(ref))
                await arrived.wait()
                group.create_task(claims.unprepare(ref))
                await asyncio.sleep(0)
                go_on.set()
            assert claims.files.uids() == set()


async def test_a_file_that_is_lost_after_the_driver_restarted_is_restored(tmp_path: Path) -> None:
    """Kubelet does not prepare the claim again, because it has not restarted."""
    objects = Objects({RESOURCE_CLAIMS: listed(_claim("a")), _path("a"): _claim("a")})
    async with connected(objects.answer, tmp_path) as kube:
        with ThreadPoolExecutor(1) as thread:
            observer = PreparationObserver(kube, "n", "u1", SnapshotScanner(tmp_path), thread)
            files = CdiFiles(tmp_path / "cdi")
            await PreparedClaims(observer, files, AllowList(), PluginAllocator()).prepare(
                KubeletClaim("ns", "a", "u-a")
            )
            restarted = PreparedClaims(observer, files, AllowList(), PluginAllocator())
            assert await restarted.restore()
            assert restarted.lost() == set()
            files.remove("u-a")
            assert restarted.lost() == {"u-a"}
            assert await restarted.restore()
            assert files.uids() == {"u-a"}


async def test_a_file_that_cannot_be_removed_does_not_keep_others_from_being_restored(tmp_path: Path) -> None:
    objects = Objects({RESOURCE_CLAIMS: listed(_claim("a")), _path("a"): _claim("a")})
    async with connected(objects.answer, tmp_path) as kube:
        with ThreadPoolExecutor(1) as thread:
            observer = PreparationObserver(kube, "n", "u1", SnapshotScanner(tmp_path), thread)
            claims = PreparedClaims(observer, CdiFiles(tmp_path / "cdi"), AllowList(), PluginAllocator())
            claims.files.path("u-gone").mkdir(parents=True)
            claims.files.write("u-old", {})
            assert not await claims.restore()
            assert claims.files.uids() == {"u-gone", "u-a"}


async def test_a_claim_that_cannot_be_restored_is_unprepared_without_waiting_for_the_disk(tmp_path: Path) -> None:
    reading, go_on = asyncio.Event(), asyncio.Event()
    objects = Objects({RESOURCE_CLAIMS: listed(_claim("a"))})

    async def answer(request: web.Request) -> web.Response:
        if request.path == _path("a"):
            reading.set()
            await go_on.wait()
        return await objects.answer(request)

    async with connected(answer, tmp_path) as kube:
        with ThreadPoolExecutor(1) as thread:
            observer = PreparationObserver(kube, "n", "u1", SnapshotScanner(tmp_path), thread)
            claims = PreparedClaims(
                observer, CdiFiles(tmp_path / "cdi"), AllowList(), PluginAllocator(), restore_s=0.05
            )
            restoring = asyncio.create_task(claims.restore())
            await reading.wait()
            async with asyncio.timeout(20):
                await claims.unprepare(KubeletClaim("ns", "a", "u-a"))
                assert not await restoring
            go_on.set()


class _Counting:
    """Adds another variable each time it is asked."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    async def allocate(self, _request: AllocateRequest) -> PluginEdits:
        return PluginEdits(env={"ANSWER": str(next(self._numbers))})


async def test_a_container_with_several_devices_of_a_claim_gets_one_answer_of_the_plugins(tmp_path: Path) -> None:
    """Each answer may take as long as the deadline of a plugin, and kubelet does not wait for many of them."""
    claim = _claim("a")
    claim["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": True}
    ]
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    claim["status"]["allocation"]["devices"]["results"] = [result | {"request": request} for request in ("m", "n")]
    devices = {"nodename": "n", "runningcontainer": {"main": {"allocatefrom": {"gpu": "gpu/3"}}}}
    container = {"name": "main", "resources": {"claims": [{"name": "c"}]}}
    pod = {
        "metadata": {"name": "p", "uid": "p", "annotations": {ANNOTATION: json.dumps(devices)}},
        "spec": {"containers": [container], "resourceClaims": [{"name": "c", "resourceClaimName": "a"}]},
    }
    objects = Objects({_path("a"): claim, "/api/v1/namespaces/ns/pods/p": pod})
    async with connected(objects.answer, tmp_path) as kube:
        with ThreadPoolExecutor(1) as thread:
            observer = PreparationObserver(kube, "n", "u1", SnapshotScanner(tmp_path), thread)
            claims = PreparedClaims(observer, CdiFiles(tmp_path / "cdi"), AllowList(env=("ANSWER",)), _Counting())
            prepared = await claims.prepare(KubeletClaim("ns", "a", "u-a"))
            assert [each.plugin_edits.env for each in prepared] == [{"ANSWER": "1"}, {"ANSWER": "1"}]
