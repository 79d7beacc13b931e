"""What the catalog of a replica reports about groups, nodes and users."""

from typing import Any

import pytest

from controller.admission.catalog.state_catalog import StateCatalog
from controller.placement.volume_names import MODEL_ANNOTATION, VOLUME_LABEL, SnapshotKey, hashed_name, volume_names
from controller.state.cluster_state import ClusterState
from shared.api.core import ClaimSpec, PersistentVolumeClaim
from shared.api.kinds import NODE_GROUP
from shared.api.model_node import EntryStatus
from shared.errors import Unreachable
from shared.kube.objects import Meta
from shared.names import INJECTED_LABEL, USER_LABEL, uses_label
from tests.builders.api_server import Objects
from tests.builders.cluster import (
    cache,
    cluster_model,
    entry,
    entry_status,
    group,
    model_node,
    node,
    pod,
)


@pytest.mark.parametrize(
    ("reported", "full"),
    [
        (entry_status("m", "Failed", reason="InsufficientStorage"), True),
        (entry_status("m", "Failed", "r0", reason="InsufficientStorage"), False),
        (entry_status("m", "Failed", reason="Unreachable"), False),
        (entry_status("m", "Downloading", reason="InsufficientStorage"), False),
        (entry_status("other", "Failed", reason="InsufficientStorage"), False),
    ],
)
async def test_a_node_lacks_space_only_if_it_reports_so_for_the_serving_revision(
    reported: EntryStatus,
    full: bool,  # noqa: FBT001 - a parameter
    catalog: StateCatalog,
    cluster: ClusterState,
) -> None:
    cluster.cluster_model_caches.upsert(cache("m", "g"))
    cluster.model_nodes.upsert(model_node("a", entry("m"), reported=[reported]))
    (model,) = catalog.cluster_model_caches()
    assert model.serving_revision == "r1"
    assert catalog.lacks_space(model, "a") is full
    assert not catalog.lacks_space(model, "b")


async def test_groups_missing_from_the_cache_are_read_live_by_name(
    catalog: StateCatalog, cluster: ClusterState, objects: Objects
) -> None:
    cluster.nodes.upsert(node("a", {"pool": "gpu"}))
    cluster.groups.upsert(group("gpus", {"pool": "gpu"}))
    assert [n.name for n in catalog.nodes_of_group("gpus")] == ["a"]
    assert list(catalog.nodes_of_group("none")) == []
    assert catalog.group("none") is None
    objects.objects[f"{NODE_GROUP.path}/new"] = {"metadata": {"name": "new"}}
    assert await catalog.group_names(["gpus", "new", "none", "../x"]) == ["gpus", "new"]
    objects.down = True
    assert await catalog.group_names(["gpus"]) == ["gpus"], "cached objects are not read"
    with pytest.raises(Unreachable):
        await catalog.group_names(["new"])


async def test_a_review_lists_no_pods(catalog: StateCatalog, cluster: ClusterState, objects: Objects) -> None:
    objects.down = True
    labels = {USER_LABEL: "true", uses_label("m"): "true"}
    cluster.model_pods.upsert(pod("b", "n", [("m", "r1")], labels=labels))
    cluster.model_pods.upsert(pod("done", "n", [("m", "r1")], labels=labels, phase="Succeeded"))
    cluster.model_pods.upsert(pod("labelled-by-hand", "n", labels=labels))
    assert catalog.users_of("ClusterBaseModel", "", "m") == ["ns/b"]
    assert catalog.users_of("BaseModel", "ns", "m") == []


async def test_pods_of_an_older_model_with_the_same_id_do_not_use_the_younger(
    catalog: StateCatalog, cluster: ClusterState
) -> None:
    cluster.cluster_base_models.upsert(cluster_model("m", {}))
    cluster.cluster_model_caches.upsert(
        cache("m", "g", uri="s3://other/files", uid="y", creation_timestamp="2027-01-01T00:00:00Z")
    )
    cluster.model_pods.upsert(pod("p", "n", [("m", "r1")], labels={USER_LABEL: "true", uses_label("m"): "true"}))
    assert catalog.users_of("ClusterBaseModel", "", "m") == ["ns/p"]
    assert catalog.users_of("ClusterModelCache", "", "m") == []


async def test_groups_of_a_foreign_kind_are_named_only_if_they_opt_in(
    catalog: StateCatalog, cluster: ClusterState, objects: Objects
) -> None:
    asks = {"name": "asks", "annotations": {"larder.dev/managed": "true"}}
    for meta in ({"name": "theirs"}, asks):
        objects.objects[f"{NODE_GROUP.path}/{meta['name']}"] = {"metadata": meta}
    assert await catalog.group_names(["asks", "theirs"]) == ["asks", "theirs"]
    cluster.ownership.set_foreign("ModelCacheNodeGroup", foreign=True)
    assert await catalog.group_names(["asks", "theirs"]) == ["asks"]


async def test_pods_that_were_given_a_model_by_its_claim_are_its_users(
    catalog: StateCatalog, cluster: ClusterState
) -> None:
    for name, phase in (("runs", "Running"), ("waits", "Pending"), ("done", "Succeeded")):
        given = pod(name, "n", claims=["model-llama"], labels={INJECTED_LABEL: "true"}, phase=phase)
        cluster.injected_pods.upsert(given)
    assert catalog.users_of_claim("ns", "model-llama") == ["ns/runs", "ns/waits"]
    assert catalog.users_of_claim("elsewhere", "model-llama") == []
    assert catalog.users_of_claim("ns", "model-other") == []


@pytest.mark.parametrize(
    ("marks", "plain"),
    [
        ({"labels": {VOLUME_LABEL: "true"}, "annotations": {MODEL_ANNOTATION: "m@r1"}}, True),
        ({"labels": {VOLUME_LABEL: "true"}, "annotations": {MODEL_ANNOTATION: "m@r0"}}, False),
        ({"annotations": {MODEL_ANNOTATION: "m@r1"}}, False),
    ],
)
async def test_a_claim_has_the_name_of_its_model_unless_another_claim_has_it(
    marks: dict[str, Any],
    plain: bool,  # noqa: FBT001 - a parameter
    catalog: StateCatalog,
    cluster: ClusterState,
) -> None:
    wanted = SnapshotKey("m", "r1")
    assert catalog.claim_name("team", wanted, "r1") == "m"
    assert catalog.claim_name("team", wanted, "r2") == hashed_name(wanted), "new pods get another revision"
    spec = ClaimSpec(volume_name=volume_names("team", "m")[0])
    claim = PersistentVolumeClaim(metadata=Meta(name="m", namespace="team", **marks), spec=spec)
    cluster.volumes.claims.upsert(claim)
    assert (catalog.claim_name("team", wanted, "r1") == "m") is plain
    assert catalog.claim_name("other", wanted, "r1") == "m"
