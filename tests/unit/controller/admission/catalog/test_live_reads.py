"""The live reads of admission."""

from pathlib import Path
from typing import Any

import pytest

from controller.admission.catalog.state_catalog import StateCatalog
from controller.inferenceservices.users import ServiceUsers
from controller.sources.manifests import Manifests
from controller.sources.rate_limits import KeyedRateLimiter, Rate
from controller.state.cluster_state import ClusterState
from controller.state.dra.claim_users import ResourceClaimUsers
from shared.api.core import PODS
from shared.api.kinds import MODEL
from shared.dra import DRIVER, RESOURCE_CLAIMS, device_name
from shared.errors import Unreachable
from shared.names import uses_label
from tests.builders.api_server import Objects, listed, serving
from tests.builders.cluster import (
    entry,
    model_node,
)


async def test_live_users_are_the_pods_that_have_not_ended(catalog: StateCatalog, objects: Objects) -> None:
    def found(name: str, phase: str) -> dict[str, Any]:
        volumes = [{"name": "v", "hostPath": {"path": "/var/lib/larder/models/m/r1"}}]
        meta = {"name": name, "namespace": "ns", "labels": {uses_label("m"): "true"}}
        return {"metadata": meta, "spec": {"volumes": volumes}, "status": {"phase": phase}}

    objects.objects[PODS] = listed(found("b", "Running"), found("a", "Pending"), found("done", "Succeeded"))
    assert await catalog.live_users_of("m", "") == ["ns/a", "ns/b"]
    objects.objects["/api/v1/namespaces/team/pods"] = listed()
    assert await catalog.live_users_of("team_m", "team") == [], "pods of other namespaces are not read"
    objects.down = True
    with pytest.raises(Unreachable):
        await catalog.live_users_of("m", "")


async def test_live_users_include_pods_that_hold_the_model_as_a_device(
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


async def test_reads_of_models_are_rate_limited_per_namespace(cluster: ClusterState, tmp_path: Path) -> None:
    spec = {"source": {"oci": {"ref": "registry/model"}}, "storage": {"storageClass": "c", "size": "1Gi"}}
    model = {"metadata": {"name": "m"}, "spec": spec, "status": {"phase": "Ready"}}
    paths = [f"{MODEL.path_in(namespace)}/m" for namespace in ("flood", "other")]
    async with serving(Objects(dict.fromkeys(paths, model)), tmp_path) as kube:
        users, reads = ServiceUsers(kube, cluster, enabled=True), KeyedRateLimiter(Rate(1, 3), lambda: 0.0)
        devices = ResourceClaimUsers(kube, enabled=False)
        catalog = StateCatalog(cluster, kube, Manifests(kube, "ns"), users, devices, reads)
        assert len(await catalog.injectable_models("flood", ["m", "m", "m"])) == 1
        with pytest.raises(Unreachable, match="namespace flood name more Models"):
            await catalog.injectable_models("flood", ["m"])
        assert await catalog.injectable_models("other", ["m"])


async def test_models_are_read_up_to_the_first_that_pods_cannot_mount(catalog: StateCatalog, objects: Objects) -> None:
    spec = {"source": {"oci": {"ref": "registry/model"}}, "storage": {"storageClass": "c", "size": "1Gi"}}
    for name, phase in (("a", "Ready"), ("loading", "Downloading"), ("z", "Ready")):
        model = {"metadata": {"name": name}, "spec": spec, "status": {"phase": phase}}
        objects.objects[f"{MODEL.path_in('team')}/{name}"] = model
    assert list(await catalog.injectable_models("team", ["a", "z"])) == ["a", "z"]
    assert list(await catalog.injectable_models("team", ["a", "loading", "z"])) == ["a", "loading"]
    assert list(await catalog.injectable_models("team", ["a", "gone", "z"])) == ["a"]
    objects.down = True
    with pytest.raises(Unreachable):
        await catalog.injectable_models("team", ["a"])


async def test_a_storage_class_counts_as_existing_if_the_api_server_does_not_answer(
    catalog: StateCatalog, objects: Objects
) -> None:
    objects.objects["/apis/storage.k8s.io/v1/storageclasses/fast"] = {"metadata": {"name": "fast"}}
    assert [await catalog.has_storage_class(name) for name in ("fast", "typo")] == [True, False]
    objects.down = True
    assert await catalog.has_storage_class("typo")
