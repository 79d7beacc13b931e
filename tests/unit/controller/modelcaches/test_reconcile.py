"""What a reconcile of a ModelCache does while ModelCaches are disabled, and what it knows of its own creations."""

import asyncio
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web

from controller.downloads.progress import ProgressReader
from controller.manager.event_recorder import EventRecorder
from controller.manager.write import StaleError
from controller.modelcaches.act import ModelCacheActor
from controller.modelcaches.keys import ModelCacheKey
from controller.modelcaches.observe import ModelCacheObserver
from controller.modelcaches.reconcile import ModelCacheReconciler
from controller.models.resolver import Resolver
from controller.provisioning.creations import Creations
from controller.provisioning.provisioner import Provisioner
from controller.sources.credentials import Secrets
from shared.api.core import VOLUMES, claims_in, jobs_in, pods_in
from shared.api.model_cache import ModelCache, ModelCacheStatus
from shared.kube.transport import Kube
from shared.sources.settings import SourceSettings
from tests.builders.api_server import connected, listed
from tests.builders.cluster import fresh_cluster
from tests.builders.model_caches import NOW, cache, claim
from tests.builders.provisioning import provisioner

PATH = "/apis/serving.kserve.io/v1alpha1/namespaces/team/modelcaches/llama"
KEY = ModelCacheKey("team", "llama")
RESOLVED = ModelCacheStatus(source="s3://models/llama", resolved_revision="r1", manifest_digest="d" * 64)


@pytest.mark.parametrize(("deleted", "left"), [(True, []), (False, ["larder.dev/finalizer"])])
async def test_a_disabled_controller_delays_no_deletion(tmp_path: Path, deleted: bool, left: list[str]) -> None:  # noqa: FBT001
    found = cache(deleted=deleted)
    stored: dict[str, Any] = msgspec.to_builtins(found)
    stored["metadata"]["resourceVersion"] = found.metadata.resource_version
    writes = list[dict[str, Any]]()

    async def answer(request: web.Request) -> web.Response:
        assert request.path == PATH
        if request.method == "PUT":
            writes.append(await request.json())
            stored["metadata"]["finalizers"] = writes[-1]["metadata"]["finalizers"]
        return web.json_response(stored)

    cluster, none = fresh_cluster(), cast("Any", None)
    cluster.model_caches.upsert(found)
    async with connected(answer, tmp_path) as kube:
        observer = ModelCacheObserver(cluster, kube, none, none, none)
        actor = ModelCacheActor(kube, none, none, none, none)
        reconciler = ModelCacheReconciler(observer, actor, none, 0, enabled=False)
        assert await reconciler.reconcile(KEY) is None
    assert stored["metadata"]["finalizers"] == left
    assert len(writes) == int(deleted)


class SlowVolumes:
    """An API server that creates volumes only once `proceed` is set, and no object of a collection in `refused`."""

    def __init__(self) -> None:
        self.refused = set[str]()
        self.objects: dict[str, Any] = {pods_in("team"): listed()}
        self.is_asked, self.proceed = asyncio.Event(), asyncio.Event()

    def put(self, found: ModelCache) -> None:
        stored: dict[str, Any] = msgspec.to_builtins(found)
        stored["metadata"]["resourceVersion"] = found.metadata.resource_version
        self.objects[PATH] = stored

    async def answer(self, request: web.Request) -> web.Response:
        path = request.path.removesuffix("/status")
        if request.method == "POST" and path in self.refused:
            return web.json_response({"code": 403, "message": "exceeded quota"}, status=403)
        if request.method == "POST":
            body = await request.json()
            if path == VOLUMES:
                self.is_asked.set()
                await self.proceed.wait()
            self.objects[f"{path}/{body['metadata'].get('name', '')}"] = body
        elif request.method == "PUT":
            self.objects[path] = await request.json()
        elif path not in self.objects:
            return web.json_response({"code": 404, "message": "not found"}, status=404)
        return web.json_response(self.objects.pop(path) if request.method == "DELETE" else self.objects.get(path, {}))


def reconciler_with(kube: Kube, woken: asyncio.Queue[ModelCacheKey]) -> tuple[ModelCacheReconciler, Provisioner]:
    clock, none, cluster = asyncio.get_running_loop().time, cast("Any", None), fresh_cluster()
    queue = provisioner()
    secrets = Secrets(kube, "larder-system", SourceSettings())
    resolver = Resolver(secrets, none, SourceSettings(), clock, none)
    progress = ProgressReader[ModelCacheKey](clock, none)
    observer = ModelCacheObserver(cluster, kube, resolver, progress, lambda: NOW, frozenset(["d"]))
    actor = ModelCacheActor(kube, EventRecorder(kube, lambda: NOW), secrets, none, lambda: NOW)
    creations = Creations(queue, woken.put_nowait, clock)
    return ModelCacheReconciler(observer, actor, creations, 600), queue


def declare(server: SlowVolumes, reconciler: ModelCacheReconciler, found: ModelCache, **meta: str) -> None:
    found = msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, **meta))
    server.put(found)
    reconciler.observer.cluster.model_caches.upsert(found)


async def test_a_deleted_cache_waits_for_a_volume_that_is_being_created(tmp_path: Path) -> None:
    server, woken = SlowVolumes(), asyncio.Queue[ModelCacheKey]()
    wanted: dict[str, Any] = {"status": RESOLVED, "pv_spec": {"csi": {"driver": "d", "volumeHandle": "h"}}}
    async with connected(server.answer, tmp_path) as kube:
        reconciler, queue = reconciler_with(kube, woken)
        task = asyncio.create_task(queue.run())
        declare(server, reconciler, cache(**wanted), resource_version="1")
        await reconciler.reconcile(KEY)
        await server.is_asked.wait()
        declare(server, reconciler, cache(deleted=True, **wanted), resource_version="2")
        for _ in range(2):  # withdraws the request, which is being served
            await reconciler.reconcile(KEY)
            assert server.objects[PATH]["metadata"]["finalizers"] == ["larder.dev/finalizer"]
        server.proceed.set()
        assert await woken.get() == KEY
        for _ in range(2):
            await reconciler.reconcile(KEY)
        assert server.objects[PATH]["metadata"]["finalizers"] == []
        assert not any(path.startswith(VOLUMES) for path in server.objects)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_new_cache_of_the_same_name_does_not_inherit_a_refusal(tmp_path: Path) -> None:
    server, woken = SlowVolumes(), asyncio.Queue[ModelCacheKey]()
    server.refused.add(claims_in("team"))
    async with connected(server.answer, tmp_path) as kube:
        reconciler, queue = reconciler_with(kube, woken)
        task = asyncio.create_task(queue.run())
        declare(server, reconciler, cache(status=RESOLVED), resource_version="1")
        await reconciler.reconcile(KEY)
        assert await woken.get() == KEY
        await reconciler.reconcile(KEY)
        assert server.objects[PATH]["status"]["storageStatus"] == "Failed"
        server.refused.clear()
        declare(server, reconciler, cache(status=RESOLVED), resource_version="2", uid="u2")
        await reconciler.reconcile(KEY)
        assert server.objects[PATH]["status"]["storageStatus"] == "Pending"
        assert await woken.get() == KEY
        assert server.objects[f"{claims_in('team')}/llama"]["metadata"]["ownerReferences"][0]["uid"] == "u2"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_claim_in_the_queue_is_created_as_the_cache_wants_it_by_then(tmp_path: Path) -> None:
    server, woken = SlowVolumes(), asyncio.Queue[ModelCacheKey]()
    async with connected(server.answer, tmp_path) as kube:
        reconciler, queue = reconciler_with(kube, woken)
        for version, storage_class in enumerate(("slow", "fast")):
            wanted = cache(status=RESOLVED, pvc_spec={"storageClassName": storage_class})
            declare(server, reconciler, wanted, resource_version=str(version))
            await reconciler.reconcile(KEY)
        task = asyncio.create_task(queue.run())
        assert await woken.get() == KEY
        assert server.objects[f"{claims_in('team')}/llama"]["spec"]["storageClassName"] == "fast"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_no_job_is_started_for_a_cache_that_has_changed_since_it_was_read(tmp_path: Path) -> None:
    server, jobs = SlowVolumes(), jobs_in("team")
    async with connected(server.answer, tmp_path) as kube:
        reconciler, _ = reconciler_with(kube, asyncio.Queue())
        found = cache(status=RESOLVED)
        declare(server, reconciler, found, resource_version="1")
        server.put(
            msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, resource_version="2"))
        )
        reconciler.observer.cluster.volumes.claims.upsert(claim())
        with pytest.raises(StaleError):
            await reconciler.reconcile(KEY)
        assert not any(path.startswith(jobs) for path in server.objects)
