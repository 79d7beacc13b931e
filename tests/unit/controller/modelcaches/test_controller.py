"""Which changes queue a ModelCache: those of itself, of its claim, and of the pods of its download."""

import msgspec
import pytest

from controller.jobs.observed_jobs import JobPod
from controller.modelcaches.controller import cache_of_pod
from controller.modelcaches.job import CACHE_ANNOTATION
from controller.modelcaches.keys import ModelCacheKey
from shared.api.model_cache import ModelCacheStatus
from shared.kube.objects import Key, Meta
from tests.builders.cluster import WokenKeys, fresh_cluster, pod
from tests.builders.model_caches import cache, claim

KEY = ModelCacheKey("team", "llama")


def test_a_cache_is_woken_by_changes_of_itself_and_its_claim_only() -> None:
    cluster = fresh_cluster()
    woken = WokenKeys(cluster)
    cluster.model_caches.upsert(cache())
    assert woken.take() == {KEY}
    cluster.volumes.claims.upsert(claim())
    assert woken.take() == {KEY}
    other = msgspec.structs.replace(claim(), metadata=Meta(name="other", namespace="team"))
    cluster.volumes.claims.upsert(other)
    assert woken.take() == set()
    woken.enqueue_all()
    assert KEY in woken.take()


@pytest.mark.parametrize(
    ("deleted", "mounted", "wakes"), [(True, "llama", True), (True, "x", False), (False, "llama", False)]
)
def test_the_end_of_a_pod_wakes_only_a_deleted_cache_it_mounted(deleted: bool, mounted: str, wakes: bool) -> None:  # noqa: FBT001
    cluster = fresh_cluster()
    cluster.model_caches.upsert(cache(deleted=deleted, status=ModelCacheStatus(claim="llama")))
    cluster.model_pods.upsert(pod("p", "a", claims=[mounted], namespace="team"))
    woken = WokenKeys(cluster)
    cluster.model_pods.remove(Key("team", "p"))
    assert (KEY in woken.take()) == wakes


def test_a_pod_wakes_only_a_cache_of_its_own_namespace() -> None:
    named = JobPod(metadata=Meta(name="p", namespace="team", annotations={CACHE_ANNOTATION: "llama"}))
    assert list(cache_of_pod(named)) == [KEY]
    assert list(cache_of_pod(JobPod(metadata=Meta(name="p", namespace="team")))) == []
