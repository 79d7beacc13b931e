"""Pods of the real KServe get the cache if it can replace their download, and only then."""

import base64
import json

import pytest

from rig.demo.parts import SECRET
from tests.e2e.kserve.services import CUSTOM, ENABLE, MODEL, PODS, KServeSite, initializers, mounts, not_cached

CACHE = "kserve-pvc-source"
AT_MODELS = {"/mnt/models": {"name": CACHE, "mountPath": "/mnt/models", "readOnly": True}}


@pytest.fixture(scope="module")
def uri(site: KServeSite) -> str:
    """The URI of a cache of the group `gpus`."""
    found = site.larder.upload()
    site.cache(found)
    return found


def test_a_service_gets_its_whole_model_or_the_named_part_from_the_cache(site: KServeSite, uri: str) -> None:
    pod = site.served({"model": MODEL | {"storageUri": uri}})
    assert not_cached(pod) == ""
    assert initializers(pod) == []
    assert mounts(pod) == AT_MODELS
    assert [v["name"] for v in pod["spec"]["volumes"] if "projected" not in v] == [CACHE]
    assert site.placed(pod) in ("a", "b")
    part = site.served({"model": MODEL | {"storageUri": f"{uri}/config.json"}})
    assert list(mounts(part)) == ["/mnt/models/config.json"]
    absent = site.served({"model": MODEL | {"storageUri": f"{uri}/absent"}})
    assert "has no file or directory 'absent'" in not_cached(absent)
    assert initializers(absent) == [[f"{uri}/absent", "/mnt/models"]]


def test_a_service_that_opts_out_keeps_its_download(site: KServeSite, uri: str) -> None:
    out = site.served({"model": MODEL | {"storageUri": uri}}, {ENABLE: "false"})
    assert initializers(out) == [[uri, "/mnt/models"]]
    assert f'annotation {ENABLE} is "false"' in not_cached(out)


def test_a_single_entry_of_storage_uris_is_mounted_at_its_own_path(site: KServeSite, uri: str) -> None:
    pod = site.served({"model": MODEL, "storageUris": [{"uri": uri, "mountPath": "/mnt/other"}]})
    assert (initializers(pod), not_cached(pod)) == ([], "")
    assert mounts(pod) == {"/mnt/other": AT_MODELS["/mnt/models"] | {"mountPath": "/mnt/other"}}
    assert [v["name"] for v in pod["spec"]["volumes"] if "projected" not in v] == [CACHE]


def test_a_claim_beside_the_download_is_kept(site: KServeSite, uri: str) -> None:
    uris = [{"uri": uri, "mountPath": "/mnt/models/base"}, {"uri": "pvc://lora", "mountPath": "/mnt/models/lora"}]
    pod = site.served({"model": MODEL, "storageUris": uris})
    assert (initializers(pod), not_cached(pod)) == ([], "")
    assert {path: mount["name"] for path, mount in mounts(pod).items()} == {
        "/mnt/models/base": CACHE,
        "/mnt/models/lora": "mnt-models-lora",
    }
    on_claims = [v for v in pod["spec"]["volumes"] if "persistentVolumeClaim" in v]
    claims = {v["name"]: v["persistentVolumeClaim"]["claimName"] for v in on_claims}
    assert claims.keys() == {CACHE, "mnt-models-lora"}
    assert claims["mnt-models-lora"] == "lora"


def test_a_pod_with_several_downloads_is_not_changed(site: KServeSite, uri: str) -> None:
    pairs = [uri, "/mnt/models/a", "s3://elsewhere/b", "/mnt/models/b"]
    uris = [{"uri": uri, "mountPath": path} for uri, path in zip(pairs[::2], pairs[1::2], strict=True)]
    pod = site.served({"model": MODEL, "storageUris": uris})
    assert initializers(pod) == [pairs]
    assert "downloads 2 URIs, but a cache can replace only one" in not_cached(pod)
    assert [m["name"] for m in mounts(pod).values()] == ["mnt-models"]


def test_a_pod_with_a_storage_key_is_cached_by_its_real_uri(site: KServeSite, uri: str) -> None:
    bucket, _, path = uri.removeprefix("s3://").partition("/")
    config = base64.b64encode(json.dumps({"type": "s3", "bucket": bucket}).encode()).decode()
    secret = {"metadata": {"name": "storage-config"}, "data": {"store": config}}
    site.larder.api.ensure("/api/v1/namespaces/default/secrets", secret)
    pod = site.served({"model": MODEL | {"storage": {"key": "store", "path": path}}})
    assert (initializers(pod), not_cached(pod)) == ([], "")
    assert mounts(pod) == AT_MODELS
    assert pod["metadata"]["annotations"]["larder.dev/source-uri"] == uri


def test_a_custom_container_with_a_storage_uri_variable_gets_the_cache(site: KServeSite, uri: str) -> None:
    container = CUSTOM | {"env": [{"name": "STORAGE_URI", "value": uri}]}
    pod = site.served({"containers": [container]})
    assert (initializers(pod), not_cached(pod)) == ([], "")
    assert mounts(pod) == AT_MODELS


def test_a_group_defined_by_an_affinity_confines_the_pod(site: KServeSite) -> None:
    uri = site.larder.upload()
    site.cache(uri, group="", nodeGroups=["gpus", "fast"])
    predictor = {"model": MODEL | {"storageUri": uri}}
    for _ in range(3):
        fast = site.served(predictor, {"serving.kserve.io/nodegroup": "fast"})
        assert (initializers(fast), not_cached(fast)) == ([], "")
        assert site.placed(fast) == "b"
    anywhere = site.served(predictor)
    assert "affinity" not in anywhere["spec"]
    assert site.placed(anywhere) in ("a", "b")


def test_a_pod_in_a_group_without_the_cache_keeps_its_download(site: KServeSite, uri: str) -> None:
    pod = site.served({"model": MODEL | {"storageUri": uri}}, {"serving.kserve.io/nodegroup": "others"})
    assert "is kept on gpus, not on others" in not_cached(pod)
    assert initializers(pod) == [[uri, "/mnt/models"]]
    assert site.placed(pod)


def test_a_pod_in_a_group_without_space_for_the_cache_keeps_its_download(site: KServeSite) -> None:
    uri = site.larder.upload()
    tiny = site.larder.group({"other": "yes"}, storageLimit="64Ki")
    cache = site.larder.cache(uri, group="", nodeGroups=["gpus", tiny], credentialsSecret=SECRET)
    site.larder.wait_reason("ClusterModelCache", cache, "InsufficientStorage")
    site.larder.until(lambda: site.larder.phases("a", cache) == ["Ready"], "node a to have the model")
    predictor = {"model": MODEL | {"storageUri": uri}}
    pod = site.served(predictor, {"serving.kserve.io/nodegroup": tiny})
    assert "does not fit on any node there that the pod may run on (c)" in not_cached(pod)
    assert initializers(pod) == [[uri, "/mnt/models"]]
    assert mounts(site.served(predictor)) == AT_MODELS


def test_a_predictor_pinned_outside_the_cache_keeps_its_download(site: KServeSite, uri: str) -> None:
    pod = site.served({"model": MODEL | {"storageUri": uri}, "nodeSelector": {"other": "yes"}})
    assert "excludes every node there" in not_cached(pod)
    assert initializers(pod) == [[uri, "/mnt/models"]]
    assert site.placed(pod) == "c"


def test_a_predictor_that_requests_a_writable_model_gets_a_warning(site: KServeSite, uri: str) -> None:
    annotations = {"storage.kserve.io/readonly": "false"}
    name = site.service({"model": MODEL | {"storageUri": uri}}, annotations)
    assert mounts(site.pod(name)) == AT_MODELS
    template = site.template(name)
    copy = {"apiVersion": "v1", "kind": "Pod", "metadata": template["metadata"] | {"name": site.larder.name("copy")}}
    output = site.create_by_kubectl(copy | {"spec": template["spec"]})
    assert 'Warning: larder: annotation storage.kserve.io/readonly is "false"' in output


def test_only_a_transformer_that_downloads_the_model_gets_the_cache(site: KServeSite, uri: str) -> None:
    plain = site.service({"model": MODEL | {"storageUri": uri}}, transformer={"containers": [CUSTOM]})
    pod = site.pod(plain, "transformer")
    assert "larder.dev/not-cached" not in pod["metadata"]["annotations"]
    assert initializers(pod) == []
    downloads = CUSTOM | {"env": [{"name": "STORAGE_URI", "value": uri}]}
    other = site.service({"model": MODEL | {"storageUri": uri}}, transformer={"containers": [downloads]})
    assert mounts(site.pod(other, "transformer")) == AT_MODELS


def test_a_recreated_pod_gets_the_serving_revision(site: KServeSite) -> None:
    uri = site.larder.upload()
    cache = site.cache(uri)
    name = site.service({"model": MODEL | {"storageUri": uri}})
    pod = site.pod(name)
    copy = {"metadata": {key: pod["metadata"][key] for key in ("labels", "annotations")}, "spec": pod["spec"]}
    copy["metadata"]["name"] = site.larder.name("back")
    site.remove(name)
    again = site.larder.pod(copy)
    assert (mounts(again), initializers(again)) == (AT_MODELS, [])
    assert again["spec"]["nodeSelector"] == pod["spec"]["nodeSelector"]
    site.larder.delete_pod(again["metadata"]["name"])
    site.larder.until(lambda: not site.larder.api.answers(f"{PODS}/{copy['metadata']['name']}"), "the copy to be gone")

    site.larder.delete_unused("ClusterModelCache", cache)
    site.larder.until(lambda: site.larder.is_gone("ClusterModelCache", cache), "the cache to be gone")
    without = site.larder.pod(copy)
    assert initializers(without) == [[uri, "/mnt/models"]], "KServe's own download, added again"
    assert [m["name"] for m in mounts(without).values()] == ["kserve-provision-location"]
    assert "no ClusterModelCache holds" in not_cached(without)
