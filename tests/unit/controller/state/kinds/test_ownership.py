"""Which objects Larder manages if another product defined their kind."""

from typing import Any

import msgspec
import pytest

from controller.placement.allowed_sources import AllowedSources
from controller.placement.demand_of_kind import cache_demand
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from controller.state.kinds.ownership import (
    MANAGED_ANNOTATION,
    RECORD_ANNOTATION,
    ManagedSink,
    Ownership,
    record_of,
    with_record,
)
from controller.state.live_reader import LiveReader, object_path
from controller.state.models.retained import RetainedObjects
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.meta import Condition
from shared.kube.objects import Key
from shared.kube.transport import Kube
from tests.builders.api_server import Objects
from tests.builders.cluster import WokenKeys, base_model, cache, caches, entry, fresh_cluster, model_node, nodes

KIND = "ClusterModelCache"
OURS = {MANAGED_ANNOTATION: "true"}


@pytest.fixture
def cluster() -> ClusterState:
    return fresh_cluster()


@pytest.fixture
def sink(cluster: ClusterState) -> ManagedSink[ClusterModelCache]:
    return ManagedSink(
        KIND,
        cluster.ownership,
        cluster.cluster_model_caches,
        lambda key, found: cluster.models.set_unmanaged(KIND, key, found),
    )


def names(cluster: ClusterState) -> set[str]:
    return {key.name for key in cluster.models.demands}


def test_all_objects_of_our_own_kinds_are_managed(cluster: ClusterState, sink: ManagedSink[ClusterModelCache]) -> None:
    sink.replace([cache("plain"), cache("asks", annotations=OURS)])
    assert names(cluster) == {"plain", "asks"}
    assert cluster.models.unmanaged == {}


@pytest.mark.parametrize("text", ["", "nonsense", "\ud800", '{"size": "x"}', '{"x": ' + "[" * 10_000, "[" * 10_000])
def test_an_invalid_record_does_not_affect_other_objects(
    cluster: ClusterState, sink: ManagedSink[ClusterModelCache], text: str
) -> None:
    odd = cache("odd", annotations={RECORD_ANNOTATION: text})
    sink.replace([cache("before"), odd, cache("after")])
    sink.upsert(odd)
    assert names(cluster) == {"before", "odd", "after"}


@pytest.mark.parametrize("text", ["", "True", "false", "yes"])
def test_only_objects_of_a_foreign_kind_that_opt_in_are_managed(
    cluster: ClusterState, sink: ManagedSink[ClusterModelCache], text: str
) -> None:
    cluster.ownership.set_foreign(KIND, foreign=True)
    sink.replace([cache("no", annotations={MANAGED_ANNOTATION: text}), cache("asks", annotations=OURS)])
    assert names(cluster) == {"asks"}
    assert [key.name for key in cluster.models.unmanaged] == ["no"]


def test_objects_are_sorted_again_when_the_owner_of_their_kind_changes(
    cluster: ClusterState, sink: ManagedSink[ClusterModelCache]
) -> None:
    woken = WokenKeys(cluster)
    sink.replace([cache("plain"), cache("asks", annotations=OURS)])
    woken.take()
    assert cluster.ownership.set_foreign(KIND, foreign=True)
    assert names(cluster) == {"asks"}
    assert woken.take() == caches("plain", "asks")
    assert not cluster.ownership.set_foreign(KIND, foreign=True)
    assert cluster.ownership.set_foreign(KIND, foreign=False)
    assert names(cluster) == {"plain", "asks"}
    assert cluster.models.unmanaged == {}


def test_objects_wake_when_their_definition_loses_fields_and_when_it_gets_them(
    cluster: ClusterState, sink: ManagedSink[ClusterModelCache]
) -> None:
    woken = WokenKeys(cluster)
    sink.replace([cache("m")])
    woken.take()
    for message in ("upgrade the larder-crds chart", ""):
        assert cluster.ownership.set_missing_fields(KIND, message)
        assert woken.take() == caches("m")


def test_a_record_completes_a_status_once_another_product_defines_the_kind(
    cluster: ClusterState, sink: ManagedSink[ClusterModelCache]
) -> None:
    resolved = cache("m", annotations=OURS)
    newer = msgspec.structs.replace(resolved.status, serving_revision="r2", resolution_number=1)
    annotations = OURS | {RECORD_ANNOTATION: record_of(newer)}
    sink.replace([cache("m", annotations=annotations)])
    cluster.ownership.set_foreign(KIND, foreign=True)
    (demand,) = cluster.models.demands.values()
    assert demand.serving == "r2"


def test_an_object_is_managed_while_it_has_the_annotation(
    cluster: ClusterState, sink: ManagedSink[ClusterModelCache]
) -> None:
    cluster.ownership.set_foreign(KIND, foreign=True)
    sink.upsert(cache("m"))
    assert (names(cluster), list(cluster.models.unmanaged)) == (set(), [ModelKey(KIND, "", "m")])
    sink.upsert(cache("m", annotations=OURS))
    assert (names(cluster), list(cluster.models.unmanaged)) == ({"m"}, [])
    sink.upsert(cache("m"))
    assert (names(cluster), list(cluster.models.unmanaged)) == (set(), [ModelKey(KIND, "", "m")])
    sink.remove(Key("", "m"))
    assert (names(cluster), list(cluster.models.unmanaged)) == (set(), [])


def test_a_new_list_drops_missing_objects_and_keeps_unreadable_ones(
    cluster: ClusterState, sink: ManagedSink[ClusterModelCache]
) -> None:
    cluster.ownership.set_foreign(KIND, foreign=True)
    sink.replace([cache("a", annotations=OURS), cache("b", annotations=OURS), cache("c"), cache("d")])
    sink.replace([cache("e", annotations=OURS)], [Key("", "b"), Key("", "d")])
    assert names(cluster) == {"b", "e"}
    assert {key.name for key in cluster.models.unmanaged} == {"d"}


def test_status_fields_missing_from_a_foreign_kind_are_restored_from_the_record() -> None:
    ready = Condition(type="Ready", status="True", reason="Stocked", message="1 of 1", last_transition_time="t")
    full = cache("m")
    full = msgspec.structs.replace(full, status=msgspec.structs.replace(full.status, conditions=[ready], files=3))
    pruned = cache("m", revision="", annotations=OURS | {RECORD_ANNOTATION: record_of(full.status)})
    restored = with_record(pruned)
    assert cache_demand(KIND, restored).resolution == cache_demand(KIND, full).resolution
    assert restored.status.serving_revision == "r1"
    assert [(c.status, c.reason) for c in restored.status.conditions] == [("True", "Stocked")]
    newer = msgspec.structs.replace(
        pruned, status=msgspec.structs.replace(pruned.status, serving_revision="r2", nodes_total=5)
    )
    assert (with_record(newer).status.serving_revision, with_record(newer).status.nodes_total) == ("r2", 5)


def test_a_record_is_not_mixed_with_an_older_status(
    cluster: ClusterState, sink: ManagedSink[ClusterModelCache]
) -> None:
    old, new = cache("m"), cache("m", revision="r2")
    new = msgspec.structs.replace(new, status=msgspec.structs.replace(new.status, refreshed="1"))
    cluster.ownership.set_foreign(KIND, foreign=True)
    sink.upsert(cache("m", revision="r1", annotations=OURS | {RECORD_ANNOTATION: record_of(new.status)}))
    found = cluster.models.demands[ModelKey(KIND, "", "m")]
    assert found.resolution == cache_demand(KIND, new).resolution != cache_demand(KIND, old).resolution
    assert found.refreshed == "1"


def test_an_outdated_record_does_not_restore_an_older_resolution(
    cluster: ClusterState, sink: ManagedSink[ClusterModelCache]
) -> None:
    later = cache("m", revision="r2", annotations=OURS | {RECORD_ANNOTATION: record_of(cache("m").status)})
    cluster.ownership.set_foreign(KIND, foreign=True)
    sink.upsert(msgspec.structs.replace(later, status=msgspec.structs.replace(later.status, resolution_number=1)))
    resolution = cluster.models.demands[ModelKey(KIND, "", "m")].resolution
    assert resolution is not None
    assert resolution.revision == "r2"


def test_a_record_read_before_the_ownership_of_the_kind_is_kept(
    cluster: ClusterState, sink: ManagedSink[ClusterModelCache]
) -> None:
    record = {RECORD_ANNOTATION: record_of(cache("m").status)}
    sink.upsert(cache("m", revision="", annotations=OURS | record))
    cluster.ownership.set_foreign(KIND, foreign=True)
    assert cluster.models.demands[ModelKey(KIND, "", "m")].resolution is not None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"size": "x"}'])
def test_an_invalid_record_is_ignored(text: str) -> None:
    found = cache("m", revision="", annotations={RECORD_ANNOTATION: text})
    assert with_record(found) == found


def test_a_record_ignores_messages_and_node_counts() -> None:
    def reported(message: str) -> str:
        ready = Condition(type="Ready", status="False", reason="Downloading", message=message, last_transition_time="t")
        return record_of(msgspec.structs.replace(cache("m").status, conditions=[ready], nodes_total=len(message)))

    assert reported("1 of 9 nodes have it") == reported("2 of 9")


async def test_live_reads_respect_the_ownership_of_the_kind(kube: Kube, objects: Objects) -> None:
    key, ownership = ModelKey(KIND, "", "m"), Ownership()
    spec = {"storageUri": "hf://org/m", "nodeGroup": "g"}
    body: dict[str, Any] = {"metadata": {"name": "m", "uid": "u"}, "spec": spec}
    objects.objects[object_path(key)] = body
    live = LiveReader(kube, ownership)
    assert await live.demand(key) is not None
    ownership.set_foreign(KIND, foreign=True)
    assert await live.demand(key) is None
    body["metadata"] = {"name": "m", "uid": "u", "annotations": OURS}
    assert await live.demand(key) is not None


def test_objects_are_held_when_their_definition_loses_its_label(
    cluster: ClusterState, sink: ManagedSink[ClusterModelCache]
) -> None:
    record = {RECORD_ANNOTATION: record_of(cache("m").status)}
    sink.replace([cache("plain"), cache("asks", annotations=OURS)])
    assert cluster.models.retained() == RetainedObjects()
    cluster.ownership.set_foreign(KIND, foreign=True)
    assert cluster.models.retained() == RetainedObjects(frozenset({"uid-plain"}), frozenset({"plain"}))
    sink.upsert(cache("asks", annotations=record))
    assert cluster.models.retained().ids == {"plain"}, "it opted in before, and no longer does"
    sink.upsert(cache("plain", deletion_timestamp="2026-01-01T00:00:00Z"))
    assert cluster.models.retained() == RetainedObjects()


def test_the_removal_of_a_held_object_wakes_its_nodes(
    cluster: ClusterState, sink: ManagedSink[ClusterModelCache]
) -> None:
    woken = WokenKeys(cluster)
    cluster.ownership.set_foreign(KIND, foreign=True)
    sink.upsert(cache("m"))
    cluster.model_nodes.upsert(model_node("a", entry("m")))
    woken.take()
    sink.remove(Key("", "m"))
    assert woken.take() == nodes("a")


def test_a_source_that_is_refused_is_held_until_its_model_is_deleted(cluster: ClusterState) -> None:
    cluster.models.allowed = AllowedSources(())
    cluster.base_models.upsert(base_model("team", "m"))
    assert cluster.models.retained() == RetainedObjects(frozenset({"uid-m"}), frozenset({"team_m"}))
    model = base_model("team", "m")
    going = msgspec.structs.replace(model.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    cluster.base_models.upsert(msgspec.structs.replace(model, metadata=going))
    assert cluster.models.retained() == RetainedObjects()
