"""What a reconcile of a ModelCache does while ModelCaches are disabled."""

from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web

from controller.modelcaches.act import ModelCacheActor
from controller.modelcaches.keys import ModelCacheKey
from controller.modelcaches.observe import ModelCacheObserver
from controller.modelcaches.reconcile import ModelCacheReconciler
from tests.builders.api_server import connected
from tests.builders.cluster import fresh_cluster
from tests.builders.model_caches import cache

PATH = "/apis/serving.kserve.io/v1alpha1/namespaces/team/modelcaches/llama"
KEY = ModelCacheKey("team", "llama")


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
