"""KServe services protect the cache that they name, even when they are stopped and have no pods."""

from collections.abc import Iterator

import pytest

from rig.errors import CallRefused
from shared.json_object import Json
from tests.e2e.kserve.services import CUSTOM, ENABLE, MODEL, SERVICES, KServeSite

STOPPED = {"serving.kserve.io/stop": "true"}
LLM_SERVICES = "/apis/serving.kserve.io/v1alpha2/namespaces/default/llminferenceservices"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
WITHOUT = {"containers": [CUSTOM]}


def named(uri: str) -> Json:
    """Return the container of a component that downloads."""
    return {"containers": [CUSTOM | {"env": [{"name": "STORAGE_URI", "value": uri}]}]}


def refusal(site: KServeSite, cache: str) -> str:
    """Return the message that refuses the deletion of a cache."""
    with pytest.raises(CallRefused) as refused:
        site.larder.delete("ClusterModelCache", cache)
    return str(refused.value)


def test_a_stopped_service_protects_its_cache_whichever_field_names_it(site: KServeSite) -> None:
    uri = site.larder.upload()
    cache = site.cache(uri)
    services = [
        site.service({"model": MODEL, "storageUris": [{"uri": uri, "mountPath": "/mnt/other"}]}, STOPPED),
        site.service(named(uri), STOPPED),
        site.service(WITHOUT, STOPPED, transformer=named(uri)),
        site.service(WITHOUT, STOPPED, explainer=named(uri)),
    ]
    assert "is used by 4 InferenceServices: " in refusal(site, cache)
    for service in services:
        message = refusal(site, cache)
        assert f"default/{service}" in message
        site.larder.api.delete(f"{SERVICES}/{service}")
        site.larder.until(lambda name=service: not site.larder.api.answers(f"{SERVICES}/{name}"), f"{service} to go")  # type: ignore[misc]
    site.larder.delete("ClusterModelCache", cache)


def test_an_llm_service_protects_its_cache(site: KServeSite) -> None:
    uri, name = site.larder.push(), site.larder.name("llm")
    cache = site.cache(uri)
    body = {
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"name": name},
        "spec": {"model": {"uri": uri}, "annotations": {ENABLE: "true"}},
    }
    site.larder.api.create(LLM_SERVICES, body)
    assert f"is used by 1 InferenceService: default/{name} (LLMInferenceService)" in refusal(site, cache)
    site.larder.api.delete(f"{LLM_SERVICES}/{name}")
    site.larder.delete_unused("ClusterModelCache", cache)


def test_a_service_that_names_a_missing_path_does_not_protect_the_cache(site: KServeSite) -> None:
    uri = site.larder.upload()
    cache = site.cache(uri)
    there = site.service({"model": MODEL | {"storageUri": f"{uri}/config.json"}}, STOPPED)
    absent = site.service({"model": MODEL | {"storageUri": f"{uri}/absent"}}, STOPPED)
    message = refusal(site, cache)
    assert f"is used by 1 InferenceService: default/{there}" in message
    site.larder.api.delete(f"{SERVICES}/{there}")
    site.larder.delete_unused("ClusterModelCache", cache)
    assert site.larder.api.answers(f"{SERVICES}/{absent}")


@pytest.fixture
def without_the_permission(site: KServeSite) -> Iterator[None]:
    """The controller's role without the rule by which it lists KServe's services."""
    path = f"{ROLES}/larder-controller"
    rules = site.larder.api.get(path)["rules"]
    site.larder.api.patch(path, {"rules": [r for r in rules if "llminferenceservices" not in r["resources"]]})
    yield
    site.larder.api.patch(path, {"rules": rules})


@pytest.mark.usefixtures("without_the_permission")
def test_a_cache_cannot_be_deleted_while_services_cannot_be_listed(site: KServeSite) -> None:
    cache = site.cache(site.larder.push())
    assert "ClusterRole must let it list /apis/serving.kserve.io/v1beta1/inferenceservices" in refusal(site, cache)
