"""Where pods may run, by `larder.dev/placement`: required, preferred or gated."""

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.catalog.port import CatalogModel, CatalogNode
from controller.admission.errors import InvalidRequest, ModelNotReady, MountConflict
from controller.admission.pods.pod_annotations import (
    MOUNT,
    NAMED_MODELS,
    NODE_GROUP,
    NOT_CACHED,
)
from controller.admission.pods.pod_changes import pod_changes
from controller.admission.settings import AdmissionSettings
from controller.placement.pod_placement import MODEL_GATE, ON_MISSING_ANNOTATION, PLACEMENT_ANNOTATION, Placement
from controller.placement.selectors import matches_affinity, matches_labels
from controller.placement.volume_names import CLAIMS_ANNOTATION, SnapshotKey, waiting_name
from rig.pods import base_model_pod, kserve_pod, plain_pod
from shared.api.model_cache_node_group import ModelCacheNodeGroup, ModelCacheNodeGroupSpec
from shared.json_object import Json
from shared.kube.objects import Meta
from shared.names import draining_label, fetching_label, ready_label, snapshot_label

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
GATES = [{"name": MODEL_GATE}]


def selected(name: str, revision: str) -> dict[str, str]:
    return {ready_label(name): "true", snapshot_label(name, revision): "true"}


def one_of(key: str, *values: str) -> Json:
    return {"key": key, "operator": "In", "values": list(values)}


def not_draining(name: str, revision: str = "r1") -> Json:
    return {"key": draining_label(name, revision), "operator": "DoesNotExist"}


def preferences(name: str, revision: str) -> list[Json]:
    has = [one_of(key, "true") for key in sorted(selected(name, revision))]
    fetches = [one_of(fetching_label(name, revision), "true")]
    return [
        {"weight": 100, "preference": {"matchExpressions": has}},
        {"weight": 50, "preference": {"matchExpressions": fetches}},
    ]


def affinity(*terms: Json) -> Json:
    return {REQUIRED: {"nodeSelectorTerms": list(terms)}}


def group(name: str, selector: dict[str, str], *terms: Json) -> ModelCacheNodeGroup:
    required = affinity(*terms) if terms else {}
    spec = ModelCacheNodeGroupSpec(storage_limit="1Gi", node_selector=selector, node_affinity=required)
    return ModelCacheNodeGroup(metadata=Meta(name=name), spec=spec)


GROUPS = {
    "a100": group("a100", {"gpu": "a100"}, {"matchExpressions": [one_of("zone", "x", "y")]}),
    "h100": group("h100", {"gpu": "h100"}),
    "all": group("all", {}),
    "none": group("none", {}, {}),
}


def cache(name: str, *groups: str) -> CatalogModel:
    return CatalogModel("ClusterModelCache", "", name, name, f"s3://bucket/{name}", "r1", "r1", groups=groups)


@pytest.fixture
def models() -> MemoryCatalog:
    """Caches in groups without nodes, and two base models, one with its own nodes."""
    own = {"node_selector": {"pool": "own"}, "node_affinity": affinity({"matchExpressions": [one_of("zone", "z")]})}
    return MemoryCatalog(
        base_models=[
            CatalogModel("ClusterBaseModel", "", "llama", "llama", "hf://o/llama@main", "r1", "r1"),
            CatalogModel("ClusterBaseModel", "", "placed", "placed", "hf://o/placed@main", "r1", "r1", **own),  # type: ignore[arg-type]
            CatalogModel("BaseModel", "team", "data", "team_data", "pvc://data/models/x"),
        ],
        cluster_caches=[
            cache("one", "a100"), cache("two", "a100", "h100"), cache("anywhere", "h100", "all"),
            cache("nowhere", "none", "gone"),
        ],
        groups=dict(GROUPS),
    )  # fmt: skip


def admit(catalog: MemoryCatalog, pod: Json, default: Placement = "required") -> Json:
    """Send a pod of namespace `team` through admission twice; the second pass must change nothing."""
    settings = AdmissionSettings(placement=default)
    after: Json = jsonpatch.apply_patch(copy.deepcopy(pod), list(pod_changes(pod, "team", catalog, settings).patch))
    assert pod_changes(after, "team", catalog, settings).patch == ()
    return after


def named(names: str, placement: str = "preferred", **spec: Any) -> Json:
    pod = plain_pod("p", {NAMED_MODELS: names, PLACEMENT_ANNOTATION: placement})
    pod["spec"] |= spec
    return pod


def terms(pod: Json) -> list[Json]:
    found: list[Json] = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return found


def test_by_default_a_pod_requires_only_the_labels_of_its_model(models: MemoryCatalog) -> None:
    pod = admit(models, plain_pod("p", {NAMED_MODELS: "two"}))
    assert pod["spec"]["nodeSelector"] == selected("two", "r1")
    assert "affinity" not in pod["spec"]
    assert PLACEMENT_ANNOTATION not in pod["metadata"]["annotations"]


def test_a_preferred_pod_requires_the_group_and_prefers_nodes_with_the_files(models: MemoryCatalog) -> None:
    pod = admit(models, named("one"))
    assert pod["spec"]["nodeSelector"] == {"gpu": "a100"}
    assert terms(pod) == [{"matchExpressions": [not_draining("one"), one_of("zone", "x", "y")]}]
    assert pod["spec"]["affinity"]["nodeAffinity"][PREFERRED] == preferences("one", "r1")


def test_several_groups_are_alternatives(models: MemoryCatalog) -> None:
    pod = admit(models, named("two"))
    assert "nodeSelector" not in pod["spec"]
    assert terms(pod) == [
        {"matchExpressions": [not_draining("two"), one_of("gpu", "a100"), one_of("zone", "x", "y")]},
        {"matchExpressions": [not_draining("two"), one_of("gpu", "h100")]},
    ]


def test_a_group_of_all_nodes_adds_only_the_exclusion_of_draining_nodes(models: MemoryCatalog) -> None:
    pod = admit(models, named("anywhere"))
    assert "nodeSelector" not in pod["spec"]
    assert terms(pod) == [{"matchExpressions": [not_draining("anywhere")]}]


@pytest.mark.parametrize("placement", ["required", "preferred", "gated"])
def test_a_named_group_replaces_the_other_groups_in_every_placement(models: MemoryCatalog, placement: str) -> None:
    asking = named("two", placement)
    asking["metadata"]["annotations"][NODE_GROUP] = "a100"
    pod = admit(models, asking)
    assert pod["spec"]["nodeSelector"].items() >= {"gpu": "a100"}.items()
    off = [not_draining("two")] if placement == "preferred" else []
    assert terms(pod) == [{"matchExpressions": [*off, one_of("zone", "x", "y")]}]


def test_a_group_that_the_model_is_not_kept_on_is_refused(models: MemoryCatalog) -> None:
    asking = named("one")
    asking["metadata"]["annotations"][NODE_GROUP] = "h100"
    with pytest.raises(InvalidRequest, match=r"nodegroup is 'h100', but ClusterModelCache one is kept on a100; write"):
        admit(models, asking)


def test_a_base_model_s_own_selector_and_affinity_confine_a_preferred_pod(models: MemoryCatalog) -> None:
    for pod in (admit(models, named("placed")), admit(models, base_model_pod("p", "placed"), "preferred")):
        assert pod["spec"]["nodeSelector"] == {"pool": "own"}
        assert terms(pod) == [{"matchExpressions": [not_draining("placed"), one_of("zone", "z")]}]
        assert pod["spec"]["affinity"]["nodeAffinity"][PREFERRED] == preferences("placed", "r1")
        assert pod["metadata"]["annotations"][PLACEMENT_ANNOTATION] == "preferred"


def test_a_base_model_for_every_node_is_only_preferred(models: MemoryCatalog) -> None:
    pod = admit(models, named("llama"))
    assert "nodeSelector" not in pod["spec"]
    only = affinity({"matchExpressions": [not_draining("llama")]})
    assert pod["spec"]["affinity"] == {"nodeAffinity": only | {PREFERRED: preferences("llama", "r1")}}


def test_a_pod_of_several_models_needs_the_nodes_of_all_and_prefers_each(models: MemoryCatalog) -> None:
    pod = admit(models, named("one,placed", nodeSelector={"own": "x"}))
    assert pod["spec"]["nodeSelector"] == {"own": "x", "gpu": "a100", "pool": "own"}
    off = [not_draining("placed"), not_draining("one")]
    assert terms(pod) == [{"matchExpressions": [*off, one_of("zone", "x", "y"), one_of("zone", "z")]}]
    given_terms = pod["spec"]["affinity"]["nodeAffinity"][PREFERRED]
    assert given_terms == [*preferences("one", "r1"), *preferences("placed", "r1")]


def test_preferences_of_the_pod_are_kept(models: MemoryCatalog) -> None:
    own = [{"weight": 1, "preference": {"matchExpressions": [one_of(snapshot_label("one", "r1"), "true")]}}]
    other: Json = {"podAntiAffinity": {PREFERRED: []}}
    pod = admit(models, named("one", affinity={"nodeAffinity": {PREFERRED: own}} | other))
    assert pod["spec"]["affinity"]["nodeAffinity"][PREFERRED] == [*own, *preferences("one", "r1")]
    assert pod["spec"]["affinity"].items() >= other.items()


def test_a_contradiction_with_the_only_group_is_refused(models: MemoryCatalog) -> None:
    with pytest.raises(MountConflict, match="requires gpu: 'h100', but the model is on nodes with 'a100'"):
        admit(models, named("one", nodeSelector={"gpu": "h100"}))


def test_a_cache_without_a_group_that_can_have_nodes_is_refused(models: MemoryCatalog) -> None:
    with pytest.raises(
        ModelNotReady, match="nowhere cannot be on any node: node groups none and gone do not exist or match no node"
    ):
        admit(models, named("nowhere"))


def test_the_refusal_of_a_model_without_nodes_names_the_group_or_the_affinity_at_fault(models: MemoryCatalog) -> None:
    asking = named("nowhere")
    asking["metadata"]["annotations"][NODE_GROUP] = "gone"
    with pytest.raises(ModelNotReady, match="any node: node group gone does not exist or matches no node; create or"):
        admit(models, asking)
    models.base_models[0] = CatalogModel(
        "ClusterBaseModel", "", "llama", "llama", "hf://o/llama@main", "r1", "r1", node_affinity=affinity({})
    )
    with pytest.raises(ModelNotReady, match=r"llama cannot be on any node: spec.storage.nodeAffinity matches no node"):
        admit(models, named("llama"))


def test_a_preferred_pod_waits_through_a_claim_of_its_own(models: MemoryCatalog) -> None:
    pod = admit(models, named("one"))
    claim = waiting_name(SnapshotKey("one", "r1"))
    assert pod["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": claim, "readOnly": True}
    assert pod["metadata"]["annotations"][CLAIMS_ANNOTATION] == f"{claim}=one@r1"


def test_a_preferred_pod_with_a_host_path_waits_for_the_directory_to_exist(models: MemoryCatalog) -> None:
    asking = named("one")
    asking["metadata"]["annotations"][MOUNT] = "hostPath"
    assert admit(models, asking)["spec"]["volumes"][0]["hostPath"]["type"] == "Directory"


def test_a_gated_pod_is_required_behind_the_gate(models: MemoryCatalog) -> None:
    pod = admit(models, named("one", "gated", schedulingGates=[{"name": "others"}]))
    assert pod["spec"]["nodeSelector"] == selected("one", "r1")
    assert pod["spec"]["schedulingGates"] == [{"name": "others"}, *GATES]
    assert pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "one"
    assert admit(models, plain_pod("p", {NAMED_MODELS: "one"}), "gated")["spec"]["schedulingGates"] == GATES


def test_a_model_on_a_claim_adds_no_placement_rules(models: MemoryCatalog) -> None:
    for placement in ("preferred", "gated"):
        spec = admit(models, named("data", placement))["spec"]
        assert not {"nodeSelector", "affinity", "schedulingGates"} & spec.keys()


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (PLACEMENT_ANNOTATION, "soon", "placement is 'soon'; write required, preferred or gated"),
        (PLACEMENT_ANNOTATION, "", "placement is ''; write"),
        (ON_MISSING_ANNOTATION, "die", "on-missing is 'die'; write wait or fail"),
    ],
)
def test_an_invalid_placement_value_is_refused_with_the_valid_ones(
    models: MemoryCatalog, annotation: str, value: str, message: str
) -> None:
    for pod in (named("one"), base_model_pod("p", "llama"), kserve_pod("p", "s3://bucket/one")):
        pod["metadata"]["annotations"][annotation] = value
        with pytest.raises(InvalidRequest, match=message):
            admit(models, pod)


def test_a_bound_pod_cannot_request_a_gate_and_gets_none_by_default(models: MemoryCatalog) -> None:
    with pytest.raises(InvalidRequest, match=r"spec.nodeName already binds the pod to n; remove nodeName, or write"):
        admit(models, named("llama", "gated", nodeName="n"))
    bound = plain_pod("p", {NAMED_MODELS: "llama"})
    bound["spec"]["nodeName"] = "n"
    spec = admit(models, bound, "gated")["spec"]
    assert "schedulingGates" not in spec
    assert spec["nodeSelector"] == selected("llama", "r1")


def test_a_bound_pod_is_warned(models: MemoryCatalog) -> None:
    result = pod_changes(named("one", nodeName="n"), "team", models, AdmissionSettings())
    assert "not meant for, kubelet fails the pod" in result.warnings[0]


@pytest.mark.parametrize("first", ["required", "preferred", "gated"])
@pytest.mark.parametrize("then", ["required", "preferred", "gated"])
def test_a_copy_of_a_pod_is_placed_as_it_asks_now(models: MemoryCatalog, first: str, then: str) -> None:
    copied = admit(models, named("llama", first))
    copied["metadata"]["annotations"][PLACEMENT_ANNOTATION] = then
    assert admit(models, copied)["spec"] == admit(models, named("llama", then))["spec"]


def test_a_copy_prefers_the_revision_that_serves_now(models: MemoryCatalog) -> None:
    copied = admit(models, named("llama"))
    models.base_models[0] = CatalogModel("ClusterBaseModel", "", "llama", "llama", "hf://o/llama@main", "r2", "r1")
    placed = admit(models, copied)
    assert placed["spec"]["affinity"]["nodeAffinity"][PREFERRED] == preferences("llama", "r2")
    assert terms(placed) == [{"matchExpressions": [not_draining("llama", "r2")]}]


def test_every_alternative_of_a_pod_keeps_it_off_nodes_that_drain_the_model(models: MemoryCatalog) -> None:
    by_name: Json = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    mine = affinity({"matchExpressions": [one_of("gpu", "a100")]}, by_name)
    pod = admit(models, named("llama", affinity={"nodeAffinity": mine}))
    assert not any(
        allows(pod["spec"], "n", labels | {draining_label("llama", "r1"): "true"}) for labels in ({}, {"gpu": "a100"})
    )
    assert allows(pod["spec"], "n", {draining_label("llama", "r0"): "true"})
    pod["metadata"]["annotations"] |= {PLACEMENT_ANNOTATION: "required"}
    assert terms(admit(models, pod)) == terms({"spec": {"affinity": {"nodeAffinity": mine}}})


def test_an_alternative_that_only_kept_a_pod_off_draining_nodes_allows_every_node_in_a_copy(
    models: MemoryCatalog,
) -> None:
    mine = affinity({"matchExpressions": [one_of("gpu", "a100")]}, {"matchExpressions": [not_draining("llama")]})
    copied = named("llama", "required", affinity={"nodeAffinity": mine})
    assert "affinity" not in admit(models, copied)["spec"]


def test_a_pod_that_no_node_can_match_still_matches_none(models: MemoryCatalog) -> None:
    pod = admit(models, named("llama", affinity={"nodeAffinity": affinity({})}))
    assert not allows(pod["spec"], "n", {})


@pytest.mark.parametrize("placement", ["preferred", "gated"])
def test_a_pod_that_may_wait_gets_a_cache_whose_group_has_no_nodes_yet(
    models: MemoryCatalog, placement: Placement
) -> None:
    asking = kserve_pod("p", "s3://bucket/one")
    assert NOT_CACHED in admit(models, asking)["metadata"]["annotations"]
    pod = admit(models, asking, placement)
    assert NOT_CACHED not in pod["metadata"]["annotations"]
    assert pod["metadata"]["annotations"][PLACEMENT_ANNOTATION] == placement
    if placement == "preferred":
        assert pod["spec"]["nodeSelector"] == {"gpu": "a100"}


def test_a_pod_that_may_wait_gets_a_cache_for_a_node_it_may_run_on(models: MemoryCatalog) -> None:
    models.members["a100"] = [CatalogNode("n", {"gpu": "a100", "zone": "x"})]
    asking = kserve_pod("p", "s3://bucket/one")
    asking["spec"]["nodeSelector"] = {"size": "xl"}
    assert NOT_CACHED in admit(models, asking)["metadata"]["annotations"]
    assert NOT_CACHED not in admit(models, asking, "preferred")["metadata"]["annotations"]


def test_a_pod_that_would_wait_on_a_full_node_keeps_its_download(models: MemoryCatalog) -> None:
    models.members["a100"] = [CatalogNode("n", {"gpu": "a100", "zone": "x"})]
    models.full.add(("one", "n"))
    kept = admit(models, kserve_pod("p", "s3://bucket/one"), "preferred")
    assert "does not fit on any node there" in kept["metadata"]["annotations"][NOT_CACHED]


def test_a_pod_of_kserve_that_cannot_be_placed_keeps_its_download(models: MemoryCatalog) -> None:
    contradicting = kserve_pod("p", "s3://bucket/one")
    contradicting["spec"]["nodeSelector"] = {"gpu": "h100"}
    kept = admit(models, contradicting, "preferred")
    assert "requires gpu: 'h100'" in kept["metadata"]["annotations"][NOT_CACHED]
    nowhere = admit(models, kserve_pod("p", "s3://bucket/nowhere"), "preferred")
    assert "cannot be on any node" in nowhere["metadata"]["annotations"][NOT_CACHED]


def test_a_gate_is_removed_with_the_model(models: MemoryCatalog) -> None:
    gated = admit(models, kserve_pod("p", "s3://bucket/one"), "gated")
    assert gated["spec"]["schedulingGates"] == GATES
    models.cluster_caches.clear()
    assert "schedulingGates" not in admit(models, gated, "gated")["spec"]


KEYS, VALUES = st.sampled_from(["gpu", "zone", "pool"]), st.sampled_from(["a100", "h100", "x", "z", "own"])
EXPRESSIONS = st.builds(one_of, KEYS, VALUES) | st.builds(
    lambda key, operator: {"key": key, "operator": operator}, KEYS, st.sampled_from(["Exists", "DoesNotExist"])
)
TERMS = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(EXPRESSIONS, max_size=2),
        "matchFields": st.just([{"key": "metadata.name", "operator": "In", "values": ["n"]}]),
    },
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "nodeSelector": st.dictionaries(KEYS, VALUES, max_size=1),
        "affinity": st.lists(TERMS, min_size=1, max_size=3).map(lambda found: {"nodeAffinity": affinity(*found)}),
    },
)
NODES = st.tuples(st.sampled_from(["n", "m"]), st.dictionaries(KEYS, VALUES))


def allows(spec: Json, name: str, labels: dict[str, str]) -> bool:
    required = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return matches_labels(spec.get("nodeSelector") or {}, labels) and matches_affinity(required, name, labels)


@given(SPECS, st.sampled_from(["one", "two", "anywhere", "llama", "placed"]), st.lists(NODES, min_size=1))
def test_a_preferred_pod_may_run_where_both_it_and_its_model_allow_and_nowhere_else(
    spec: Json, name: str, nodes: list[tuple[str, dict[str, str]]]
) -> None:
    own = {"pool": "own"} if name == "placed" else {}
    zone = affinity({"matchExpressions": [one_of("zone", "z")]}) if name == "placed" else {}
    groups = {"one": ["a100"], "two": ["a100", "h100"], "anywhere": ["h100", "all"]}.get(name, ["all"])
    catalog = MemoryCatalog(
        base_models=[
            CatalogModel(
                "ClusterBaseModel", "", base, base, f"hf://o/{base}@main", "r1", node_selector=own, node_affinity=zone
            )
            for base in ("llama", "placed")
        ],
        cluster_caches=[cache("one", "a100"), cache("two", "a100", "h100"), cache("anywhere", "h100", "all")],
        groups=GROUPS,
    )
    try:
        after = admit(catalog, named(name, **spec))["spec"]
    except MountConflict:
        assert spec.get("nodeSelector")
        return
    for node, labels in nodes:
        member = any(
            matches_labels(GROUPS[one].spec.node_selector, labels)
            and matches_affinity(GROUPS[one].spec.node_affinity, node, labels)
            for one in groups
        )
        meant = member and matches_labels(own, labels) and matches_affinity(zone, node, labels)
        assert allows(after, node, labels) == (meant and allows(spec, node, labels))
