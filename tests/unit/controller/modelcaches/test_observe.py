"""What a decision about a ModelCache is based on, and how much is read for it."""

from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from controller.downloads.progress import ProgressReader
from controller.modelcaches.download_steps import current_job
from controller.modelcaches.keys import ModelCacheKey
from controller.modelcaches.observe import ModelCacheObserver
from controller.models.resolver import Resolver
from controller.placement.volume_names import volume_names
from controller.sources.credentials import Secrets
from controller.state.cluster_state import ClusterState
from shared.api.core import VOLUMES, Pod
from shared.api.model_cache import ModelCacheStatus
from shared.kube.transport import Kube
from shared.sources.settings import SourceSettings
from tests.builders.api_server import Objects, connected
from tests.builders.cluster import fresh_cluster, pod
from tests.builders.model_caches import NOW, cache, claim, job, view

KEY = ModelCacheKey("team", "llama")
JOBS, PODS = "/apis/batch/v1/namespaces/team/jobs", "/api/v1/namespaces/team/pods"
RESOLVED = ModelCacheStatus(source="s3://models/llama", resolved_revision="r1", manifest_digest="d" * 64, files=3)
JOB = current_job(view(claim=claim()))


def observer(kube: Kube, cluster: ClusterState) -> ModelCacheObserver:
    secrets = Secrets(kube, "larder-system", SourceSettings())
    resolver = Resolver(secrets, cast("Any", None), SourceSettings(), lambda: 0.0, lambda _: None)
    return ModelCacheObserver(cluster, kube, resolver, ProgressReader(lambda: 0.0, lambda _: None), lambda: NOW)


def cluster_with(**spec: Any) -> ClusterState:
    cluster = fresh_cluster()
    cluster.model_caches.upsert(cache(status=RESOLVED, **spec))
    cluster.volumes.claims.upsert(claim())
    return cluster


def job_body(*, ours: bool) -> Any:
    body = msgspec.to_builtins(job())
    body["metadata"] |= {"name": JOB, "labels": {"larder.dev/model-cache": "u1"} if ours else {}}
    return body


@pytest.mark.parametrize("name", volume_names("team", "llama"))
async def test_the_volume_of_a_deleted_cache_is_found_although_pv_spec_was_removed(tmp_path: Path, name: str) -> None:
    labels = {"larder.dev/model-cache": "u1"}
    volume = {"metadata": {"name": name, "labels": labels}, "spec": {"claimRef": {"namespace": "team"}}}
    server = Objects({f"{VOLUMES}/{name}": volume})
    cluster = fresh_cluster()
    cluster.model_caches.upsert(cache(deleted=True, status=RESOLVED))
    async with connected(server.answer, tmp_path) as kube:
        seen = await observer(kube, cluster).view(KEY, None)
    assert seen is not None
    assert seen.volume is not None


@pytest.mark.parametrize("ours", [True, False])
async def test_a_job_that_the_cache_does_not_own_is_ignored(tmp_path: Path, ours: bool) -> None:  # noqa: FBT001
    server = Objects({f"{JOBS}/{JOB}": job_body(ours=ours), PODS: {"metadata": {}, "items": []}})
    async with connected(server.answer, tmp_path) as kube:
        seen = await observer(kube, cluster_with()).view(KEY, None)
    assert seen is not None
    assert (seen.job is not None) == ours


async def test_only_one_page_of_the_pods_of_a_job_is_read(tmp_path: Path) -> None:
    endless = {"metadata": {"continue": "more"}, "items": []}
    server = Objects({f"{JOBS}/{JOB}": job_body(ours=True), PODS: endless})
    async with connected(server.answer, tmp_path) as kube:
        assert await observer(kube, cluster_with()).view(KEY, None)
    assert server.asked.count(f"GET {PODS}") == 1


async def test_a_missing_secret_of_a_running_download_is_reported(tmp_path: Path) -> None:
    name = current_job(view(cache(credentials_secret="hub"), claim=claim()))
    server = Objects({f"{JOBS}/{name}": job_body(ours=True), PODS: {"metadata": {}, "items": []}})
    async with connected(server.answer, tmp_path) as kube:
        seen = await observer(kube, cluster_with(credentials_secret="hub")).view(KEY, None)
    assert seen is not None
    assert "Secret hub in namespace team does not exist" in seen.secret_refused


async def test_pods_are_listed_live_only_if_none_is_known_to_use_the_claim(tmp_path: Path) -> None:
    server, cluster = Objects({PODS: {"metadata": {}, "items": []}}), cluster_with()
    async with connected(server.answer, tmp_path) as kube:
        reads = observer(kube, cluster)
        cluster.model_pods.upsert(user("web-1"))
        assert await reads.users(view(claim=claim())) == ("web-1",)
        assert server.asked == []
        cluster.model_pods.upsert(user("web-1", phase="Succeeded"))
        assert await reads.users(view(claim=claim())) == ()
        assert server.asked == [f"GET {PODS}"]


def user(name: str, phase: str = "Running") -> Pod:
    return pod(name, "a", claims=["llama"], namespace="team", phase=phase)


def test_a_namespace_with_many_caches_is_checked_more_rarely() -> None:
    cluster = fresh_cluster()
    reads = observer(cast("Any", None), cluster)
    assert reads.waiting_in("team") == 0
    for number in range(1000):
        found = cache()
        cluster.model_caches.upsert(
            msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, name=f"m-{number}"))
        )
    assert (reads.waiting_in("team"), reads.waiting_in("other")) == (1000, 0)
