"""The group of nodes that is chosen for a pod of KServe."""

from typing import Any

import pytest

from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.catalog.port import CatalogModel, CatalogNode
from controller.admission.pods.pod_annotations import NODE_GROUP, NOT_CACHED, read_models
from rig.pods import Rewrite, kserve_pod
from shared.api.model_cache_node_group import ModelCacheNodeGroup, ModelCacheNodeGroupSpec
from shared.kube.objects import Meta


@pytest.fixture
def catalog() -> MemoryCatalog:
    """Two caches of one URI: `a` on the groups red and green, `b` on blue."""
    colours = ("red", "green", "blue")
    return MemoryCatalog(
        cluster_caches=[
            CatalogModel("ClusterModelCache", "", "b", "b", "s3://bucket/m", "r", groups=("blue",)),
            CatalogModel("ClusterModelCache", "", "a", "a", "s3://bucket/m", "r", groups=("red", "green")),
        ],
        groups={
            c: ModelCacheNodeGroup(
                metadata=Meta(name=c), spec=ModelCacheNodeGroupSpec(storage_limit="1Gi", node_selector={"colour": c})
            )
            for c in colours
        },
        members={c: [CatalogNode(f"node-{c}", {"colour": c})] for c in colours},
    )


def test_a_pod_that_names_no_group_may_run_in_any_group_of_the_cache(rewrite: Rewrite) -> None:
    after, _ = rewrite(kserve_pod("p", "s3://bucket/m"))
    assert read_models(after) == [("a", "r")]
    assert "colour" not in after["spec"]["nodeSelector"]


def test_the_group_that_the_annotation_names_confines_the_pod(rewrite: Rewrite) -> None:
    after, _ = rewrite(kserve_pod("p", "s3://bucket/m", annotations={NODE_GROUP: "green"}))
    assert read_models(after) == [("a", "r")]
    assert after["spec"]["nodeSelector"]["colour"] == "green"


def test_a_named_group_picks_its_cache(rewrite: Rewrite) -> None:
    after, _ = rewrite(kserve_pod("p", "s3://bucket/m", annotations={NODE_GROUP: "blue"}))
    assert read_models(after) == [("b", "r")]


def test_a_named_group_without_the_model_is_reported(rewrite: Rewrite) -> None:
    _, warnings = rewrite(kserve_pod("p", "s3://bucket/m", annotations={NODE_GROUP: "pink"}))
    assert "kept on blue, green, red, not on pink" in warnings[0]


def test_a_named_group_against_the_pod_s_selector_is_reported(rewrite: Rewrite) -> None:
    pod = kserve_pod("p", "s3://bucket/m", annotations={NODE_GROUP: "blue"})
    pod["spec"]["nodeSelector"] = {"colour": "red"}
    after, warnings = rewrite(pod)
    assert "is kept on blue, but the pod's own nodeSelector or node affinity excludes every node there" in warnings[0]
    assert after["spec"] == pod["spec"]


def test_the_pod_s_selector_picks_the_group(rewrite: Rewrite) -> None:
    pod = kserve_pod("p", "s3://bucket/m")
    pod["spec"]["nodeSelector"] = {"colour": "blue"}
    assert read_models(rewrite(pod)[0]) == [("b", "r")]


def _affinity(key: str, operator: str, *values: str, field: bool = False) -> dict[str, Any]:
    expression = {"key": key, "operator": operator} | ({"values": list(values)} if values else {})
    term = {"matchFields" if field else "matchExpressions": [expression]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": required}


@pytest.mark.parametrize(
    ("affinity", "cache"),
    [
        (_affinity("colour", "In", "blue"), "b"),
        (_affinity("colour", "NotIn", "red", "green"), "b"),
        (_affinity("colour", "Exists"), "a"),
        (_affinity("metadata.name", "In", "node-blue", field=True), "b"),
    ],
)
def test_the_pod_s_affinity_picks_the_cache(affinity: dict[str, Any], cache: str, rewrite: Rewrite) -> None:
    pod = kserve_pod("p", "s3://bucket/m")
    pod["spec"]["affinity"] = affinity
    assert read_models(rewrite(pod)[0]) == [(cache, "r")]


@pytest.mark.parametrize(
    "pinned",
    [
        {"nodeSelector": {"colour": "pink"}},
        {"affinity": _affinity("colour", "In", "pink")},
        {"affinity": _affinity("colour", "DoesNotExist")},
    ],
)
def test_a_pod_pinned_outside_the_groups_keeps_its_download(pinned: dict[str, Any], rewrite: Rewrite) -> None:
    pod = kserve_pod("p", "s3://bucket/m")
    pod["spec"] |= pinned
    after, warnings = rewrite(pod)
    why = after["metadata"]["annotations"].pop(NOT_CACHED)
    assert "is kept on blue, green, red, but the pod's own nodeSelector or node affinity excludes" in why
    assert warnings == (f"model not cached: {why}",)
    assert after == pod


@pytest.mark.parametrize(("named", "node"), [({NODE_GROUP: "green"}, "node-green"), ({}, "node-red")])
def test_nodes_without_space_for_the_model_do_not_count(
    named: dict[str, str], node: str, catalog: MemoryCatalog, rewrite: Rewrite
) -> None:
    catalog.full = {("a", node)}
    pod = kserve_pod("p", "s3://bucket/m", annotations=named)
    if named:
        after, _ = rewrite(pod)
        why = after["metadata"]["annotations"].pop(NOT_CACHED)
        assert why.endswith("does not fit on any node there that the pod may run on (node-green)")
        assert after == pod
        return
    assert read_models(rewrite(pod)[0]) == [("a", "r")], "green has room"
    catalog.full.add(("a", "node-green"))
    assert read_models(rewrite(pod)[0]) == [("b", "r")], "another cache of the same URI"


def test_only_some_of_many_nodes_are_checked_for_space(catalog: MemoryCatalog, rewrite: Rewrite) -> None:
    names = [f"node-{i}" for i in range(1000)]
    catalog.members["red"] = [CatalogNode(name, {"colour": "red"}) for name in names]
    catalog.full = {("a", name) for name in names}
    before = catalog.lookups
    assert read_models(rewrite(kserve_pod("p", "s3://bucket/m"))[0]) == [("a", "r")]
    assert catalog.lookups - before < 100


def test_a_selector_on_the_ready_label_excludes_no_node(rewrite: Rewrite) -> None:
    pod = kserve_pod("p", "s3://bucket/m")
    pod["spec"]["nodeSelector"] = {"model-cache-ready-a": "true"}
    assert read_models(rewrite(pod)[0]) == [("a", "r")], "no node has this label until it has the model"


def test_a_cache_being_removed_gives_way_to_another_of_the_same_uri(catalog: MemoryCatalog, rewrite: Rewrite) -> None:
    catalog.cluster_caches[1] = CatalogModel("ClusterModelCache", "", "a", "a", "s3://bucket/m", "r", deleting=True)
    assert read_models(rewrite(kserve_pod("p", "s3://bucket/m"))[0]) == [("b", "r")]


def test_a_group_without_nodes_gives_way_to_one_that_has_some(catalog: MemoryCatalog, rewrite: Rewrite) -> None:
    catalog.members["red"] = []
    pod = kserve_pod("p", "s3://bucket/m")
    after, _ = rewrite(pod)
    assert read_models(after) == [("a", "r")]
    catalog.members["green"] = []
    assert read_models(rewrite(pod)[0]) == [("b", "r")]


@pytest.mark.parametrize("named", [{}, {NODE_GROUP: "red"}])
def test_a_pod_keeps_its_download_if_no_group_of_the_cache_has_nodes(
    named: dict[str, str], catalog: MemoryCatalog, rewrite: Rewrite
) -> None:
    catalog.members.clear()
    pod = kserve_pod("p", "s3://bucket/m", annotations=named)
    after, _ = rewrite(pod)
    why = after["metadata"]["annotations"].pop(NOT_CACHED)
    assert why == f"ClusterModelCache a is kept on {'red' if named else 'blue, green, red'}, where there are no nodes"
    assert after == pod


def test_a_cache_without_nodes_gives_way_to_one_with_a_shorter_uri(catalog: MemoryCatalog, rewrite: Rewrite) -> None:
    catalog.cluster_caches.append(
        CatalogModel("ClusterModelCache", "", "none", "none", "s3://bucket/m/part", "r", groups=("empty",))
    )
    catalog.paths = {"none": {"config.json"}, "a": {"part/config.json"}}
    assert read_models(rewrite(kserve_pod("p", "s3://bucket/m/part"))[0]) == [("a", "r")]


def test_the_node_that_the_pod_is_bound_to_picks_the_group(rewrite: Rewrite) -> None:
    pod = kserve_pod("p", "s3://bucket/m")
    pod["spec"]["nodeName"] = "node-blue"
    assert read_models(rewrite(pod)[0]) == [("b", "r")]


@pytest.mark.parametrize(("named", "node"), [({}, "elsewhere"), ({NODE_GROUP: "red"}, "node-blue")])
def test_a_pod_bound_outside_the_groups_keeps_its_download(named: dict[str, str], node: str, rewrite: Rewrite) -> None:
    pod = kserve_pod("p", "s3://bucket/m", annotations=named)
    pod["spec"]["nodeName"] = node
    after, _ = rewrite(pod)
    assert f"which node {node} (spec.nodeName) does not belong to" in after["metadata"]["annotations"].pop(NOT_CACHED)
    assert after == pod


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _terms(affinity: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return found


@pytest.fixture
def by_affinity(catalog: MemoryCatalog) -> list[dict[str, Any]]:
    """The terms that define the group `green`, which has no nodeSelector."""
    terms = _terms(_affinity("colour", "In", "green")) + _terms(
        _affinity("metadata.name", "In", "node-green", field=True)
    )
    spec = ModelCacheNodeGroupSpec(
        storage_limit="1Gi", node_affinity={REQUIRED: {"nodeSelectorTerms": terms}, "preferredDuring": []}
    )
    catalog.groups["green"] = ModelCacheNodeGroup(metadata=Meta(name="green"), spec=spec)
    return terms


def test_a_group_that_is_defined_by_affinity_confines_the_pod(
    by_affinity: list[dict[str, Any]], rewrite: Rewrite
) -> None:
    after, _ = rewrite(kserve_pod("p", "s3://bucket/m", annotations={NODE_GROUP: "green"}))
    assert after["spec"]["affinity"] == {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": by_affinity}}}


def test_the_required_affinity_of_the_pod_is_combined_with_that_of_its_group(
    by_affinity: list[dict[str, Any]], rewrite: Rewrite
) -> None:
    pod = kserve_pod("p", "s3://bucket/m", annotations={NODE_GROUP: "green"})
    zones = [_terms(_affinity("colour", "NotIn", zone))[0] for zone in ("a", "b")]
    preferred: list[dict[str, Any]] = []
    empty: dict[str, Any] = {}
    pod["spec"]["affinity"] = {
        "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [*zones, empty]}, "preferred": preferred},
        "podAffinity": {},
    }
    after, _ = rewrite(pod)
    expressions, fields = by_affinity
    assert _terms(after["spec"]["affinity"]) == [
        {"matchExpressions": [*zones[0]["matchExpressions"], *expressions["matchExpressions"]]},
        zones[0] | fields,
        {"matchExpressions": [*zones[1]["matchExpressions"], *expressions["matchExpressions"]]},
        zones[1] | fields,
    ]
    assert after["spec"]["affinity"]["podAffinity"] == {}
    assert after["spec"]["affinity"]["nodeAffinity"]["preferred"] == preferred


def test_an_affinity_too_long_to_join_leaves_the_pod_alone(by_affinity: list[dict[str, Any]], rewrite: Rewrite) -> None:
    pod = kserve_pod("p", "s3://bucket/m", annotations={NODE_GROUP: "green"})
    terms = [_terms(_affinity("colour", "NotIn", f"{i}"))[0] for i in range(51)]
    pod["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    after, warnings = rewrite(pod)
    assert len(by_affinity) == 2
    assert "51 terms and its node group's has 2, which combine to more than 100" in warnings[0]
    assert after["spec"] == pod["spec"]


def test_an_affinity_that_takes_long_to_compare_with_every_node_is_left_to_the_scheduler(rewrite: Rewrite) -> None:
    pod = kserve_pod("p", "s3://bucket/m")
    term = {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}
    required = {"nodeSelectorTerms": [term] * 100}
    pod["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    assert read_models(rewrite(pod)[0]) == [("a", "r")]
    required["nodeSelectorTerms"] = [term]
    assert "excludes every node there" in rewrite(pod)[1][0]
