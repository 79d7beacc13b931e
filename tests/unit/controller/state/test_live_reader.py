"""Live reads before files are removed: everything that may need them is found, and files are kept in doubt."""

from typing import Any

import msgspec
import pytest

from controller.state.keys import ModelKey
from controller.state.live_reader import LiveReader, keys_of, object_path
from shared.api.core import NODES
from shared.api.kinds import NODE_GROUP
from shared.api.model_cache_node_group import LEAST_RECENTLY_USED, ModelCacheNodeGroup
from shared.kube.errors import KubeError, Malformed
from shared.kube.objects import Object, is_object_name
from shared.kube.transport import Kube
from tests.builders.api_server import Objects, listed
from tests.builders.cluster import base_model, cache, cluster_model, group, node

GPU = {"pool": "gpu"}
R1, R2, OLD = ("m", "r1"), ("m", "r2"), ("m", "r0")


@pytest.fixture
def live(kube: Kube, objects: Objects) -> LiveReader:
    put(objects, f"{NODES}/a", node("a", GPU))
    put(objects, f"{NODE_GROUP.path}/gpus", group("gpus", GPU))
    return LiveReader(kube)


def put(objects: Objects, path: str, found: Object) -> None:
    objects.objects[path] = msgspec.to_builtins(found)


def put_model(objects: Objects, kind: str, found: Object) -> None:
    put(objects, object_path(ModelKey(kind, found.metadata.namespace, found.metadata.name)), found)


async def test_a_model_that_no_object_names_is_not_wanted(live: LiveReader) -> None:
    assert await live.read_wanted("a", [R1]) == frozenset()


async def test_the_resolved_and_the_serving_revision_are_wanted(live: LiveReader, objects: Objects) -> None:
    found = cache("m", "gpus", revision="r2")
    serving = msgspec.structs.replace(found.status, serving_revision="r1")
    put_model(objects, "ClusterModelCache", msgspec.structs.replace(found, status=serving))
    assert await live.read_wanted("a", [R1, R2, OLD, ("other", "r1")]) == {R1, R2}


async def test_any_revision_of_an_unresolved_model_may_be_wanted(live: LiveReader, objects: Objects) -> None:
    put_model(objects, "ClusterBaseModel", cluster_model("m", GPU))
    assert await live.read_wanted("a", [R1, OLD]) == {R1, OLD}


@pytest.mark.parametrize(
    "found",
    [
        cluster_model("m", {"pool": "cpu"}),
        cluster_model("m", GPU, uri="pvc://ns/claim/dir"),
        cluster_model("m", GPU, deletion_timestamp="2026-01-01T00:00:00Z"),
    ],
    ids=["other nodes", "on a claim", "being deleted"],
)
async def test_models_on_other_nodes_or_claims_or_being_deleted_are_not_wanted(
    live: LiveReader, objects: Objects, found: Object
) -> None:
    put_model(objects, "ClusterBaseModel", found)
    assert await live.read_wanted("a", [R1]) == frozenset()


async def test_the_losing_object_of_a_name_conflict_wants_no_revision(live: LiveReader, objects: Objects) -> None:
    put_model(objects, "ClusterModelCache", cache("m", "gpus"))
    later = cluster_model("m", GPU, uri="s3://bucket/x", creation_timestamp="2026-03-01T00:00:00Z", uid="later")
    put_model(objects, "ClusterBaseModel", later)
    assert await live.read_wanted("a", [R1, OLD]) == {R1}


async def test_a_group_that_is_gone_has_no_nodes(live: LiveReader, objects: Objects) -> None:
    put_model(objects, "ClusterModelCache", cache("m", "gone"))
    assert await live.read_wanted("a", [R1]) == frozenset()


async def test_a_namespaced_model_is_found_by_its_id(live: LiveReader, objects: Objects) -> None:
    put_model(objects, "BaseModel", base_model("team", "m"))
    assert await live.read_wanted("a", [("team_m", "r1")]) == {("team_m", "r1")}


async def test_nothing_counts_as_unwanted_if_the_node_is_unknown_or_a_read_fails(
    live: LiveReader, objects: Objects
) -> None:
    assert await live.read_wanted("gone", [R1]) == {R1}
    path = object_path(ModelKey("ClusterModelCache", "", "m"))
    objects.objects[path] = {"metadata": {"name": "m"}, "spec": {"storageUri": 5}}
    with pytest.raises(Malformed):
        await live.read_wanted("a", [R1])
    objects.down = True
    with pytest.raises(KubeError):
        await live.read_wanted("a", [R1])


@pytest.mark.parametrize(
    "identity", ["", "_", "../../nodes/a", "a_b_c/d", "x?watch=true", "A", "..", "a..b", "é", "n_"]
)
async def test_an_invalid_id_from_an_agent_never_reaches_a_request_path(
    live: LiveReader, objects: Objects, identity: str
) -> None:
    assert await live.read_wanted("a", [(identity, "r1")]) == frozenset()
    assert objects.asked == [f"GET {NODES}/a"]


def test_only_valid_object_names_are_allowed_in_a_path() -> None:
    assert keys_of("m") == [ModelKey("ClusterBaseModel", "", "m"), ModelKey("ClusterModelCache", "", "m")]
    assert keys_of("team_m") == [ModelKey("BaseModel", "team", "m")]
    assert is_object_name("a-b.c9")
    unsafe: list[Any] = ["a/b", "a%2fb", "a b", "-a", "a-", "a" * 254, "a\n"]
    assert not any(is_object_name(text) for text in unsafe)


def allow(objects: Objects, *groups: ModelCacheNodeGroup) -> None:
    objects.objects[NODE_GROUP.path] = listed(*map(msgspec.to_builtins, groups))


LRU = group("gpus", GPU, eviction_policy=LEAST_RECENTLY_USED)


async def test_an_unpinned_model_may_be_evicted_only_if_all_groups_of_the_node_allow_it(
    live: LiveReader, objects: Objects
) -> None:
    put_model(objects, "ClusterModelCache", cache("m", "gpus"))
    allow(objects, LRU, group("others", {"pool": "cpu"}))
    assert await live.read_protected("a", [R1]) == frozenset()
    allow(objects, LRU, group("all", {}))
    assert await live.read_protected("a", [R1]) == {R1}
    allow(objects)
    assert await live.read_protected("a", [R1]) == {R1}


async def test_a_pinned_model_is_protected_from_eviction(live: LiveReader, objects: Objects) -> None:
    put_model(objects, "ClusterModelCache", cache("m", "gpus", annotations={"larder.dev/pin": "true"}))
    put_model(objects, "ClusterModelCache", cache("other", "gpus"))
    allow(objects, LRU)
    assert await live.read_protected("a", [R1, ("other", "r1")]) == {R1}


async def test_everything_is_protected_on_an_unknown_node(live: LiveReader, objects: Objects) -> None:
    allow(objects, LRU)
    assert await live.read_protected("gone", [R1]) == {R1}
