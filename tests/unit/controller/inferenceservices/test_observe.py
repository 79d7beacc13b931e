"""What a reconcile of a service observes: its model from the cache, and the objects of its name live."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.admission.catalog.state_catalog import StateCatalog
from controller.inferenceservices.keys import ServiceKey
from controller.inferenceservices.kserve import KSERVE_PATHS, in_namespace
from controller.inferenceservices.observe import ServiceObserver
from controller.inferenceservices.users import ServiceUsers
from controller.sources.manifests import Manifests
from controller.state.cluster_state import ClusterState
from controller.state.dra.claim_users import ResourceClaimUsers
from controller.state.keys import ModelKey
from shared.api.base_model import BaseModelStatus, ClusterBaseModel
from shared.api.cluster_model_cache import ClusterModelCache
from shared.api.inference_service import InferenceService, ModelRef
from shared.api.kinds import INFERENCE_SERVICE
from shared.api.meta import Condition
from shared.errors import Unreachable
from shared.kube.errors import KubeError
from shared.kube.objects import Key
from shared.kube.transport import Kube
from tests.builders.api_server import Objects, listed, serving
from tests.builders.cluster import base_model, cache, cluster_model, fresh_cluster, group, node
from tests.builders.model_caches import cache as model_cache
from tests.builders.services import service

KEY = ServiceKey("team", "svc")
(ISVC,), (LLM, OLD_LLM) = KSERVE_PATHS


@pytest.fixture
def objects() -> Objects:
    return Objects()


@pytest.fixture
def cluster() -> ClusterState:
    cluster = fresh_cluster()
    cluster.inference_services.upsert(service())
    return cluster


@pytest.fixture
async def kube(objects: Objects, tmp_path: Path) -> AsyncIterator[Kube]:
    async with serving(objects, tmp_path) as kube:
        yield kube


@pytest.fixture
def observer(cluster: ClusterState, kube: Kube) -> ServiceObserver:
    users = ServiceUsers(kube, cluster, enabled=True)
    return ServiceObserver(
        cluster,
        kube,
        StateCatalog(cluster, kube, Manifests(kube, "ns"), users, ResourceClaimUsers(kube, enabled=False)),
    )


def model(
    uri: str = "hf://org/m", ready: str = "True", serving: str = "r1", reason: str = "Why", **fields: object
) -> ClusterBaseModel:
    condition = Condition(type="Ready", status=ready, reason=reason, message="words", last_transition_time="t")
    resolved: dict[str, Any] = {"source": uri}
    if uri.startswith("hf"):
        resolved = {"source": f"{uri}@main", "manifest_digest": "d"}
    status = BaseModelStatus(conditions=[condition], serving_revision=serving, **resolved)
    return msgspec.structs.replace(cluster_model("m", {}, uri=uri, **fields), status=status)


def known(observer: ServiceObserver) -> tuple[str, str]:
    found = observer.model(service())
    return found.reason, found.serves


async def test_a_ready_model_is_served_with_its_revision(observer: ServiceObserver, cluster: ClusterState) -> None:
    cluster.cluster_base_models.upsert(model())
    found = observer.model(service())
    assert (found.ready, found.title, found.revision) == (True, "ClusterBaseModel m", "r1")
    assert (found.key, found.serves) == (ModelKey("ClusterBaseModel", "", "m"), "m@r1")


async def test_a_model_that_pods_cannot_use_has_a_reason(observer: ServiceObserver, cluster: ClusterState) -> None:
    assert known(observer) == ("ModelNotFound", "")
    cluster.cluster_base_models.upsert(model(ready="False"))
    assert known(observer) == ("Why", "m@r1"), "the model's own message"
    cluster.cluster_base_models.upsert(model(ready="False", serving=""))
    assert known(observer) == ("ModelNotReady", "")
    cluster.cluster_base_models.upsert(model(deletion_timestamp="2026-01-01T00:00:00Z"))
    assert known(observer) == ("ModelNotReady", "m@r1")
    cluster.cluster_base_models.upsert(model("vendor://acme/x"))
    assert known(observer)[0] == "ModelNotManaged"


async def test_a_model_on_a_claim_serves_only_the_namespace_of_the_claim(
    observer: ServiceObserver, cluster: ClusterState
) -> None:
    cluster.cluster_base_models.upsert(model("pvc://team/data/llama", serving=""))
    assert known(observer) == ("", "m@pvc://team/data/llama")
    cluster.cluster_base_models.upsert(model("pvc://other/data/llama", serving=""))
    assert known(observer)[0] == "NamespaceNotAllowed"


async def test_a_model_on_a_claim_that_waits_for_its_first_consumer_is_served(
    observer: ServiceObserver, cluster: ClusterState
) -> None:
    uri = "pvc://team/claim/dir"
    cluster.cluster_base_models.upsert(model(uri, ready="False", serving="", reason="WaitForFirstConsumer"))
    assert known(observer) == ("", f"m@{uri}")
    cluster.cluster_base_models.upsert(model(uri, ready="False", serving="", reason="ImageNotPulled"))
    assert known(observer)[0] == "ImageNotPulled"


async def test_an_unmanaged_model_is_not_served(observer: ServiceObserver, cluster: ClusterState) -> None:
    cluster.models.set_unmanaged("ClusterBaseModel", Key("", "m"), model())
    assert known(observer)[0] == "ModelNotManaged"


async def test_another_product_s_kind_is_left_alone_whatever_is_written_on_it(
    observer: ServiceObserver, cluster: ClusterState
) -> None:
    assert await observer.view(KEY) is not None
    cluster.inference_services.upsert(
        service(metadata={"annotations": {"larder.dev/managed": "true"}, "resource_version": "2"})
    )
    cluster.ownership.set_foreign(INFERENCE_SERVICE.kind, foreign=True)
    assert await observer.view(KEY) is None


async def test_deployment_service_and_autoscaler_are_read_live(observer: ServiceObserver, objects: Objects) -> None:
    objects.objects["/apis/apps/v1/namespaces/team/deployments/svc"] = {
        "metadata": {"name": "svc"},
        "spec": {"replicas": 3, "template": {"metadata": {"annotations": {"larder.dev/serves": "m@r1"}}}},
        "status": {"readyReplicas": 2},
    }
    objects.objects["/api/v1/namespaces/team/services/svc"] = {"metadata": {"name": "svc", "uid": "s"}}
    view = await observer.view(KEY)
    assert view is not None
    assert view.deployment is not None
    assert (view.deployment.serves, view.deployment.status.ready_replicas) == ("m@r1", 2)
    assert view.kube_service is not None
    assert view.autoscaler is None
    objects.down = True
    with pytest.raises(KubeError):
        await observer.view(KEY)


def raw(found: InferenceService) -> dict[str, object]:
    written: dict[str, object] = msgspec.to_builtins(found)
    return written


async def test_users_of_a_model_are_listed_live_unless_the_kind_is_foreign(
    observer: ServiceObserver, cluster: ClusterState, objects: Objects, kube: Kube
) -> None:
    cluster.cluster_base_models.upsert(model())
    objects.objects[INFERENCE_SERVICE.path] = listed(raw(service("z")), raw(service("a")))
    asked = ModelKey("ClusterBaseModel", "", "m")
    assert await observer.catalog.services_of("ClusterBaseModel", "", "m") == ["team/a", "team/z"]
    assert await ServiceUsers(kube, cluster, enabled=False).list_services(asked) == []
    assert await ServiceUsers(kube, cluster, enabled=True).list_services(ModelKey("ClusterBaseModel", "", "none")) == []
    objects.down = True
    with pytest.raises(Unreachable, match="cannot list InferenceServices"):
        await observer.catalog.services_of("ClusterBaseModel", "", "m")
    cluster.ownership.set_foreign(INFERENCE_SERVICE.kind, foreign=True)
    assert await observer.catalog.services_of("ClusterBaseModel", "", "m") == []


async def test_kserve_services_that_match_its_uri_hold_a_cache(
    observer: ServiceObserver, cluster: ClusterState, objects: Objects
) -> None:
    cluster.cluster_model_caches.upsert(cache("c", "g", uri="s3://bucket/m"))
    assert await observer.catalog.services_of("ClusterModelCache", "", "c") == []
    asking = {"serving.kserve.io/enable-model-cache": "true"}
    using = {
        "metadata": {"name": "s", "namespace": "team", "annotations": asking},
        "spec": {"predictor": {"model": {"storageUri": "s3://bucket/m/part"}}},
    }
    objects.objects[ISVC] = listed(using)
    assert await observer.catalog.services_of("ClusterModelCache", "", "c") == ["team/s"]


async def test_a_longer_cache_takes_over_kserve_services_only_if_pods_can_use_it(
    observer: ServiceObserver, cluster: ClusterState, objects: Objects
) -> None:
    async def users(name: str) -> list[str]:
        return list(await observer.catalog.services_of("ClusterModelCache", "", name))

    def longer(*groups: str, revision: str = "r1", **fields: Any) -> ClusterModelCache:
        found = cache("longer", *groups, uri="s3://bucket/m/part", revision=revision, **fields)
        source = "s3://bucket/m/part" if revision else ""
        return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, source=source))

    asked = {"name": "s", "namespace": "team", "annotations": {"serving.kserve.io/enable-model-cache": "true"}}
    predictor = {"model": {"storageUri": "s3://bucket/m/part"}}
    objects.objects[ISVC] = listed({"metadata": asked, "spec": {"predictor": predictor}})
    cluster.groups.upsert(group("g", {"a": "1"}))
    cluster.cluster_model_caches.upsert(cache("c", "g", uri="s3://bucket/m"))
    cluster.cluster_model_caches.upsert(longer("g"))
    assert await users("c") == ["team/s"], "the group of the longer cache has no node"
    cluster.nodes.upsert(node("n", {"a": "1"}))
    assert (await users("c"), await users("longer")) == ([], ["team/s"])
    for of_no_use in (longer("g", revision=""), longer("g", deletion_timestamp="t"), longer("none")):
        cluster.cluster_model_caches.upsert(of_no_use)
        assert (await users("c"), await users("longer")) == (["team/s"], ["team/s"])


@pytest.mark.parametrize("path", [LLM, OLD_LLM])
async def test_llm_services_of_any_api_version_hold_a_cache(
    path: str, observer: ServiceObserver, cluster: ClusterState, objects: Objects
) -> None:
    cluster.cluster_model_caches.upsert(cache("c", "g", uri="s3://bucket/m"))
    meta = {"name": "llm", "namespace": "team", "annotations": {"serving.kserve.io/enable-model-cache": "true"}}
    objects.objects[path] = listed({"metadata": meta, "spec": {"model": {"uri": "s3://bucket/m"}}})
    assert await observer.catalog.services_of("ClusterModelCache", "", "c") == ["team/llm"]


@pytest.mark.parametrize("path", [ISVC, LLM])
async def test_services_that_may_not_be_listed_are_an_error_and_not_ignored(
    path: str, observer: ServiceObserver, cluster: ClusterState, objects: Objects
) -> None:
    cluster.cluster_model_caches.upsert(cache("c", "g", uri="s3://bucket/m"))
    objects.refused[path] = 403
    with pytest.raises(Unreachable, match=f"ClusterRole must let it list {path}"):
        await observer.catalog.services_of("ClusterModelCache", "", "c")


async def test_for_a_model_of_a_namespace_only_the_services_there_are_listed(
    observer: ServiceObserver, cluster: ClusterState, objects: Objects
) -> None:
    cluster.base_models.upsert(base_model("team", "b", uri="hf://org/b"))
    cluster.model_caches.upsert(model_cache())
    asking = {"serving.kserve.io/enable-model-cache": "true"}
    predictor = {"model": {"storageUri": "s3://models/llama"}}
    for namespace in ("team", "other"):
        meta = {"name": "s", "namespace": namespace, "annotations": asking}
        found = listed({"metadata": meta, "spec": {"predictor": predictor}})
        objects.objects[in_namespace(ISVC, namespace)] = found
        of_model = service("z", namespace, model=ModelRef(name="b", kind="BaseModel"))
        objects.objects[INFERENCE_SERVICE.path_in(namespace)] = listed(raw(of_model))
    assert await observer.catalog.services_of("ModelCache", "team", "llama") == ["team/s"]
    assert await observer.catalog.services_of("BaseModel", "team", "b") == ["team/z"]
    assert all("/namespaces/team/" in asked for asked in objects.asked), "services of other namespaces are not read"
