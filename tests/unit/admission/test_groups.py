"""Which group of nodes a pod of KServe is given."""

from typing import Any

import pytest

from controller.admission.catalog import CatalogModel, CatalogNode, MemoryCatalog
from controller.admission.keys import NODE_GROUP, NOT_CACHED, read_models
from rig.pods import Rewrite, kserve_pod
from shared.api.model_cache_node_group import ModelCacheNodeGroup, ModelCacheNodeGroupSpec
from shared.kube.objects import Meta


@pytest.fixture
def catalog() -> MemoryCatalog:
    """Two caches of one URI: `a` on the groups red and green, `b` on blue."""
    colours = ("red", "green", "blue")
    return MemoryCatalog(
        model_caches=[
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


def test_the_first_group_serves_a_pod_that_reaches_all(rewrite: Rewrite) -> None:
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


def test_a_named_group_without_the_model_is_told(rewrite: Rewrite) -> None:
    _, warnings = rewrite(kserve_pod("p", "s3://bucket/m", annotations={NODE_GROUP: "pink"}))
    assert "kept on blue, green, red, not on pink" in warnings[0]


def test_a_named_group_against_the_pod_s_selector_is_told(rewrite: Rewrite) -> None:
    pod = kserve_pod("p", "s3://bucket/m", annotations={NODE_GROUP: "blue"})
    pod["spec"]["nodeSelector"] = {"colour": "red"}
    after, warnings = rewrite(pod)
    assert "nodeSelector asks for colour" in warnings[0]
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
        (_affinity("colour", "In", "pink"), "a"),
    ],
)
def test_the_pod_s_affinity_picks_the_group_or_the_first(
    affinity: dict[str, Any], cache: str, rewrite: Rewrite
) -> None:
    pod = kserve_pod("p", "s3://bucket/m")
    pod["spec"]["affinity"] = affinity
    assert read_models(rewrite(pod)[0]) == [(cache, "r")]


def test_a_cache_on_its_way_out_gives_way_to_another_of_the_same_uri(catalog: MemoryCatalog, rewrite: Rewrite) -> None:
    catalog.model_caches[1] = CatalogModel("ClusterModelCache", "", "a", "a", "s3://bucket/m", "r", deleting=True)
    assert read_models(rewrite(kserve_pod("p", "s3://bucket/m"))[0]) == [("b", "r")]


def test_a_group_without_nodes_gives_way_to_one_that_has_some(catalog: MemoryCatalog, rewrite: Rewrite) -> None:
    catalog.members["red"] = []
    pod = kserve_pod("p", "s3://bucket/m")
    pod["spec"]["nodeSelector"] = {"colour": "pink"}
    after, _ = rewrite(pod)
    assert read_models(after) == [("a", "r")]
    catalog.members["green"] = []
    assert read_models(rewrite(pod)[0]) == [("b", "r")]


@pytest.mark.parametrize("named", [{}, {NODE_GROUP: "red"}])
def test_a_cache_that_no_node_holds_leaves_the_pod_alone(
    named: dict[str, str], catalog: MemoryCatalog, rewrite: Rewrite
) -> None:
    catalog.members.clear()
    pod = kserve_pod("p", "s3://bucket/m", annotations=named)
    after, _ = rewrite(pod)
    why = after["metadata"]["annotations"].pop(NOT_CACHED)
    assert why == f"ClusterModelCache a is kept on {'red' if named else 'blue, green, red'}, where there is no node"
    assert after == pod


def test_a_cache_that_no_node_holds_gives_way_to_the_next_shorter(catalog: MemoryCatalog, rewrite: Rewrite) -> None:
    catalog.model_caches.append(
        CatalogModel("ClusterModelCache", "", "none", "none", "s3://bucket/m/part", "r", groups=("empty",))
    )
    catalog.paths = {"none": {"config.json"}, "a": {"part/config.json"}}
    assert read_models(rewrite(kserve_pod("p", "s3://bucket/m/part"))[0]) == [("a", "r")]


def test_the_node_that_the_pod_is_bound_to_picks_the_group(rewrite: Rewrite) -> None:
    pod = kserve_pod("p", "s3://bucket/m")
    pod["spec"]["nodeName"] = "node-blue"
    assert read_models(rewrite(pod)[0]) == [("b", "r")]


@pytest.mark.parametrize(("named", "node"), [({}, "elsewhere"), ({NODE_GROUP: "red"}, "node-blue")])
def test_a_pod_that_is_bound_outside_the_groups_is_left_alone(
    named: dict[str, str], node: str, rewrite: Rewrite
) -> None:
    pod = kserve_pod("p", "s3://bucket/m", annotations=named)
    pod["spec"]["nodeName"] = node
    after, _ = rewrite(pod)
    assert f"where node {node} (spec.nodeName) is not" in after["metadata"]["annotations"].pop(NOT_CACHED)
    assert after == pod
