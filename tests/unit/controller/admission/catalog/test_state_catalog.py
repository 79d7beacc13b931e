"""What admission learns about models, groups and users, from memory and from live reads."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.admission.catalog.port import CatalogModel
from controller.admission.catalog.state_catalog import StateCatalog
from controller.claims.outcome import BLOCKING_REASONS
from controller.inferenceservices.users import ServiceUsers
from controller.placement.allowed import AllowedSources
from controller.sources.buckets import Buckets, Rate
from controller.sources.listings import pack
from controller.sources.manifests import Manifests
from controller.state.cluster_state import ClusterState
from controller.state.devices.device_users import DeviceUsers
from shared.api.core import PODS
from shared.api.kinds import MODEL, NODE_GROUP
from shared.api.meta import Condition
from shared.api.model_node import EntryStatus
from shared.errors import Unreachable
from shared.kube.objects import Key
from shared.kube.transport import Kube
from shared.manifest import File, build_manifest
from shared.model_devices import DRIVER, RESOURCE_CLAIMS, device_name
from shared.names import INJECTED_LABEL, USER_LABEL, uses_label
from tests.builders.api_server import Objects, listed, serving
from tests.builders.cluster import (
    base_model,
    cache,
    cluster_model,
    entry,
    entry_status,
    fresh_cluster,
    group,
    model_node,
    node,
    pod,
)
from tests.builders.model_caches import cache as model_cache


@pytest.fixture
def cluster() -> ClusterState:
    return fresh_cluster()


@pytest.fixture
def catalog(cluster: ClusterState, kube: Kube) -> StateCatalog:
    return StateCatalog(
        cluster, kube, Manifests(kube, "ns"), ServiceUsers(kube, cluster, enabled=True), DeviceUsers(kube, enabled=True)
    )


async def test_a_namespaces_own_model_comes_first(catalog: StateCatalog, cluster: ClusterState) -> None:
    assert catalog.base_model("team", "m") is None
    cluster.cluster_base_models.upsert(cluster_model("m", {}))
    assert found(catalog.base_model("team", "m")).id == "m"
    cluster.base_models.upsert(base_model("team", "m"))
    assert found(catalog.base_model("team", "m")).id == "team_m"
    assert found(catalog.base_model("elsewhere", "m")).id == "m"


def found(model: CatalogModel | None) -> CatalogModel:
    assert model is not None
    return model


async def test_caches_are_reported_with_what_serves(catalog: StateCatalog, cluster: ClusterState) -> None:
    cluster.caches.upsert(cache("m", "g"))
    cluster.caches.upsert(cache("new", "g", revision=""))
    reported = {model.name: (model.serving_revision, model.uri, model.groups) for model in catalog.caches()}
    assert reported == {"m": ("r1", "hf://org/m@main", ("g",)), "new": ("", "hf://org/new@main", ("g",))}


async def test_the_nodes_of_a_model_are_those_that_its_object_names(
    catalog: StateCatalog, cluster: ClusterState
) -> None:
    cluster.cluster_base_models.upsert(cluster_model("m", {"pool": "gpus"}))
    assert found(catalog.base_model("", "m")).node_selector == {"pool": "gpus"}


async def test_why_pods_cannot_have_a_model(catalog: StateCatalog, cluster: ClusterState) -> None:
    cluster.cluster_base_models.upsert(cluster_model("bad", {}, uri="ftp://x/y"))
    assert found(catalog.base_model("", "bad")).reason == "InvalidURI"
    cluster.caches.upsert(cache("m", "g"))
    later = cluster_model("m", {}, uri="s3://bucket/x", creation_timestamp="2026-05-01T00:00:00Z", uid="later")
    cluster.cluster_base_models.upsert(later)
    assert found(catalog.base_model("", "m")).reason == "NameConflict"
    unresolved = cluster_model("gone", {})
    why = Condition(type="Resolved", status="False", reason="SourceNotFound", message="no", last_transition_time="t")
    status = msgspec.structs.replace(unresolved.status, conditions=[why])
    cluster.cluster_base_models.upsert(msgspec.structs.replace(unresolved, status=status))
    assert (found(catalog.base_model("", "gone")).reason, found(catalog.base_model("", "gone")).message) == (
        "SourceNotFound",
        "no",
    )


async def test_a_source_that_is_not_allowed_is_why_pods_cannot_have_a_model(cluster: ClusterState, kube: Kube) -> None:
    cluster.models.allowed = AllowedSources(())
    catalog = StateCatalog(
        cluster, kube, Manifests(kube, "ns"), ServiceUsers(kube, cluster, enabled=True), DeviceUsers(kube, enabled=True)
    )
    cluster.base_models.upsert(base_model("team", "m"))
    assert found(catalog.base_model("team", "m")).reason == "SourceNotAllowed"
    model = base_model("team", "m")
    serving = msgspec.structs.replace(model.status, serving_revision="r1")
    cluster.base_models.upsert(msgspec.structs.replace(model, status=serving))
    assert found(catalog.base_model("team", "m")).reason == "", "what nodes hold of it can be had"


@pytest.mark.parametrize(
    ("source", "reason", "kept_away"),
    [
        ("pvc://ns/claim/dir", "PathNotFound", True),
        ("pvc://ns/claim/dir", "PVCNotBound", True),
        ("pvc://ns/claim/dir", "OnClaim", False),
        ("pvc://ns/claim/dir", "WaitForFirstConsumer", False),
        ("pvc://ns/claim/dir", "NotPermitted", True),
        ("pvc://ns/claim/other", "OnClaim", True),
        *(("pvc://ns/claim/dir", reason, True) for reason in BLOCKING_REASONS),
    ],
)
async def test_pods_get_a_claim_that_was_looked_at(
    source: str,
    reason: str,
    kept_away: bool,  # noqa: FBT001 - a parameter
    catalog: StateCatalog,
    cluster: ClusterState,
) -> None:
    model = cluster_model("m", {}, uri="pvc://ns/claim/dir")
    cluster.cluster_base_models.upsert(model)
    assert found(catalog.base_model("", "m")).reason == "Reading"
    truth = "True" if reason == "OnClaim" else "False"
    ready = Condition(type="Ready", status=truth, reason=reason, message="words", last_transition_time="t")
    resolved = Condition(type="Resolved", status="False", reason="Old", message="words", last_transition_time="t")
    status = msgspec.structs.replace(model.status, source=source, conditions=[ready, resolved])
    newer = cluster_model("m", {}, uri="pvc://ns/claim/dir")
    cluster.cluster_base_models.upsert(msgspec.structs.replace(newer, status=status))
    assert bool(found(catalog.base_model("", "m")).reason) is kept_away


@pytest.mark.parametrize(("metadata", "kept_away"), [("Reading", True), ("Skipped", False), ("Written", False)])
async def test_one_pod_binds_a_claim_and_the_others_wait_for_its_look(
    metadata: str,
    kept_away: bool,  # noqa: FBT001 - a parameter
    catalog: StateCatalog,
    cluster: ClusterState,
) -> None:
    model = cluster_model("m", {}, uri="pvc://ns/claim/dir")
    reported = {"Ready": "WaitForFirstConsumer", "Metadata": metadata}
    conditions = [Condition(type=k, status="False", reason=r, message="w", last_transition_time="t")
                  for k, r in reported.items()]  # fmt: skip
    status = msgspec.structs.replace(model.status, source="pvc://ns/claim/dir", conditions=conditions)
    cluster.cluster_base_models.upsert(msgspec.structs.replace(model, status=status))
    labels = {uses_label("m"): "true"}
    cluster.users.upsert(pod("elsewhere", "n", labels=labels, namespace="other"))
    cluster.users.upsert(pod("done", "n", phase="Succeeded", labels=labels))
    assert found(catalog.base_model("ns", "m")).reason == ""
    cluster.users.upsert(pod("first", "", phase="Pending", labels=labels))
    assert bool(found(catalog.base_model("ns", "m")).reason) is kept_away
    if kept_away:
        assert found(catalog.base_model("ns", "m")).message.startswith("pod first binds PVC claim")


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
async def test_a_node_says_itself_that_a_model_does_not_fit(
    reported: EntryStatus,
    full: bool,  # noqa: FBT001 - a parameter
    catalog: StateCatalog,
    cluster: ClusterState,
) -> None:
    cluster.caches.upsert(cache("m", "g"))
    cluster.model_nodes.upsert(model_node("a", entry("m"), reported=[reported]))
    (model,) = catalog.caches()
    assert model.serving_revision == "r1"
    assert catalog.lacks_space(model, "a") is full
    assert not catalog.lacks_space(model, "b")


async def test_groups_from_memory_and_by_name_where_memory_lacks_one(
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
    assert await catalog.group_names(["gpus"]) == ["gpus"], "nothing is read that memory has"
    with pytest.raises(Unreachable):
        await catalog.group_names(["new"])


async def test_a_review_lists_no_pods(catalog: StateCatalog, cluster: ClusterState, objects: Objects) -> None:
    objects.down = True
    labels = {USER_LABEL: "true", uses_label("m"): "true"}
    cluster.users.upsert(pod("b", "n", [("m", "r1")], labels=labels))
    cluster.users.upsert(pod("done", "n", [("m", "r1")], labels=labels, phase="Succeeded"))
    cluster.users.upsert(pod("labelled-by-hand", "n", labels=labels))
    assert (catalog.users_of("m", ""), catalog.users_of("m", "team")) == (["ns/b"], [])


async def test_live_users_are_the_pods_that_have_not_ended(catalog: StateCatalog, objects: Objects) -> None:
    def found(name: str, phase: str) -> dict[str, Any]:
        volumes = [{"name": "v", "hostPath": {"path": "/var/lib/larder/models/m/r1"}}]
        meta = {"name": name, "namespace": "ns", "labels": {uses_label("m"): "true"}}
        return {"metadata": meta, "spec": {"volumes": volumes}, "status": {"phase": phase}}

    objects.objects[PODS] = listed(found("b", "Running"), found("a", "Pending"), found("done", "Succeeded"))
    assert await catalog.live_users_of("m", "") == ["ns/a", "ns/b"]
    objects.objects["/api/v1/namespaces/team/pods"] = listed()
    assert await catalog.live_users_of("team_m", "team") == [], "pods of other namespaces are not looked at"
    objects.down = True
    with pytest.raises(Unreachable):
        await catalog.live_users_of("m", "")


async def test_live_users_hold_the_model_as_a_device_too(
    catalog: StateCatalog, cluster: ClusterState, objects: Objects
) -> None:
    cluster.model_nodes.upsert(model_node("a", entry("m")))
    result = {"driver": DRIVER, "pool": "a", "device": device_name("m", "r1")}
    pods = [{"resource": "pods", "name": "p", "uid": "u"}]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": pods}
    objects.objects[PODS] = listed()
    objects.objects[RESOURCE_CLAIMS] = listed({"metadata": {"name": "c", "namespace": "ns"}, "status": status})
    assert await catalog.live_users_of("m", "") == ["ns/p"]
    objects.refused[RESOURCE_CLAIMS] = 403
    with pytest.raises(Unreachable):
        await catalog.live_users_of("m", "")


def keep_list(objects: Objects, *paths: str, archives: tuple[str, ...] = ()) -> str:
    """Put a manifest with these files where the API server has them and return its digest."""
    files = [File(path, 1) for path in paths] + [File(path, 1, archive="tar") for path in archives]
    manifest = build_manifest("hf://org/m@c", "r1", files)
    packed = pack(manifest)
    binary = {"manifest.json.z": base64.b64encode(packed.body).decode()}
    path = f"/api/v1/namespaces/ns/configmaps/manifest-{packed.digest}"
    objects.objects[path] = {"metadata": {"name": "x"}, "binaryData": binary}
    return packed.digest


async def test_paths_of_a_snapshot_are_known_once_its_list_was_read(
    catalog: StateCatalog, cluster: ClusterState, objects: Objects
) -> None:
    digest = keep_list(objects, "a/config.json", "b")
    cached = cache("m", "g")
    status = msgspec.structs.replace(cached.status, manifest_digest=digest)
    cluster.caches.upsert(msgspec.structs.replace(cached, status=status))
    (model,) = catalog.caches()
    assert catalog.kind_of_path(model, "a") is None
    await asyncio.gather(catalog.read_files(model), catalog.read_files(model))
    kinds = {path: catalog.kind_of_path(model, path) for path in ("a", "a/config.json", "b", "c", "a/conf")}
    assert kinds == {"a": "directory", "a/config.json": "file", "b": "file", "c": "absent", "a/conf": "absent"}
    await catalog.read_files(model)
    assert len(objects.asked) == 1


async def test_an_archive_is_no_path_of_a_snapshot(
    catalog: StateCatalog, cluster: ClusterState, objects: Objects
) -> None:
    digest = keep_list(objects, "config.json", archives=("weights",))
    cached = cache("m", "g")
    status = msgspec.structs.replace(cached.status, manifest_digest=digest)
    cluster.caches.upsert(msgspec.structs.replace(cached, status=status))
    (model,) = catalog.caches()
    await catalog.read_files(model)
    kinds = {path: catalog.kind_of_path(model, path) for path in ("config.json", "weights")}
    assert kinds == {"config.json": "file", "weights": "absent"}


async def test_paths_of_what_serves_are_known_while_a_newer_revision_is_on_its_way(
    catalog: StateCatalog, cluster: ClusterState, objects: Objects
) -> None:
    serving = keep_list(objects, "old.bin")
    cached = cache("m", "g")
    status = msgspec.structs.replace(cached.status, resolved_revision="r2", manifest_digest="0" * 64)
    cluster.caches.upsert(msgspec.structs.replace(cached, status=status))
    (model,) = catalog.caches()
    assert model.serving_revision == "r1"
    await catalog.read_files(model)
    assert catalog.kind_of_path(model, "old.bin") is None
    cluster.model_nodes.upsert(model_node("a", entry("m", manifest=serving)))
    await catalog.read_files(model)
    assert catalog.kind_of_path(model, "old.bin") == "file"


async def test_a_list_that_cannot_be_read_is_not_known(catalog: StateCatalog, cluster: ClusterState) -> None:
    cluster.caches.upsert(cache("m", "g"))
    (model,) = catalog.caches()
    await catalog.read_files(model)
    assert catalog.kind_of_path(model, "a") is None


async def test_models_of_others_are_named_and_not_looked_at(catalog: StateCatalog, cluster: ClusterState) -> None:
    cluster.ownership.set_foreign("BaseModel", foreign=True)
    cluster.cluster_base_models.upsert(cluster_model("m", {}))
    cluster.models.set_unmanaged("BaseModel", Key("team", "m"), base_model("team", "m"))
    assert not found(catalog.base_model("team", "m")).managed, "the namespace's own comes first, whosever it is"
    assert found(catalog.base_model("elsewhere", "m")).managed
    assert not found(catalog.base_model("elsewhere", "unknown")).managed, "it may be there by the time the pod starts"


async def test_groups_of_others_cannot_be_named(catalog: StateCatalog, cluster: ClusterState, objects: Objects) -> None:
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


async def test_the_pods_of_a_namespace_cannot_have_models_read_without_limit(
    cluster: ClusterState, tmp_path: Path
) -> None:
    spec = {"source": {"oci": {"ref": "registry/model"}}, "storage": {"storageClass": "c", "size": "1Gi"}}
    model = {"metadata": {"name": "m"}, "spec": spec, "status": {"phase": "Ready"}}
    paths = [f"{MODEL.path_in(namespace)}/m" for namespace in ("flood", "other")]
    async with serving(Objects(dict.fromkeys(paths, model)), tmp_path) as kube:
        users, reads = ServiceUsers(kube, cluster, enabled=True), Buckets(Rate(1, 3), lambda: 0.0)
        devices = DeviceUsers(kube, enabled=False)
        catalog = StateCatalog(cluster, kube, Manifests(kube, "ns"), users, devices, reads)
        assert len(await catalog.injectable_models("flood", ["m", "m", "m"])) == 1
        with pytest.raises(Unreachable, match="namespace flood name more Models"):
            await catalog.injectable_models("flood", ["m"])
        assert await catalog.injectable_models("other", ["m"])


async def test_a_model_cache_is_described_once_for_each_change(catalog: StateCatalog, cluster: ClusterState) -> None:
    def declare(name: str, uri: str) -> None:
        found = model_cache(storage_uri=uri)
        metadata = msgspec.structs.replace(found.metadata, name=name, resource_version=uri)
        cluster.model_caches.upsert(msgspec.structs.replace(found, metadata=metadata))

    declare("a", "s3://models/a")
    (first,) = catalog.model_caches("team")
    (again,) = catalog.model_caches("team")
    assert again is first, "a namespace may have thousands, and each pod of it asks for all"
    declare("a", "s3://models/b")
    (changed,) = catalog.model_caches("team")
    assert changed.uri == "s3://models/b"
    for number in range(300):
        declare(f"m-{number}", "s3://models/c")
    assert len(list(catalog.model_caches("team"))) == 301
    cluster.model_caches.replace([])
    assert list(catalog.model_caches("team")) == []
    assert len(catalog._models._known) <= 100, "those that are gone take no memory"
