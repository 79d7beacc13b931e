"""How much is read for a decision on a model on a claim."""

from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

from controller.claims.observe import ClaimObserver
from controller.state.keys import ModelKey
from shared.api.base_model import BaseModel, BaseModelSpec, Storage
from tests.builders.api_server import connected
from tests.builders.cluster import fresh_cluster, meta

NOW = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
CLAIM = {
    "metadata": {"name": "data", "namespace": "team", "uid": "c1"},
    "spec": {"accessModes": ["ReadWriteMany"]},
    "status": {"phase": "Bound"},
}


async def test_only_a_few_of_the_pods_with_the_label_of_a_job_are_read(tmp_path: Path) -> None:
    """Anyone may give the label to thousands of pods, each of which may have a megabyte."""
    limits: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        if request.path.endswith("/persistentvolumeclaims/data"):
            return web.json_response(CLAIM)
        if "/jobs/" in request.path:
            return web.json_response({"metadata": {"name": "larder-extract-1", "namespace": "team"}})
        limits.append(request.query["limit"])
        return web.json_response({"metadata": {"continue": "more" if len(limits) < 3 else ""}, "items": []})

    cluster = fresh_cluster()
    spec = BaseModelSpec(storage=Storage(storage_uri="pvc://data/llama"))
    cluster.base_models.upsert(BaseModel(metadata=meta("llama", namespace="team"), spec=spec))
    async with connected(answer, tmp_path) as kube:
        view = await ClaimObserver(cluster, kube, lambda: NOW).view(ModelKey("BaseModel", "team", "llama"))
    assert view is not None
    assert view.job is not None
    assert limits == ["20"]
