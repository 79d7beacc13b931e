"""Larder's webhook before KServe's: the API server calls webhooks in the order of their configurations' names."""

from collections.abc import Iterator

import pytest

from rig.errors import CallRefused
from rig.pods import base_model_pod
from tests.e2e.kserve.services import CUSTOM, MODEL, PODS, KServeSite, initializers, mounts, not_cached

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
OURS, FIRST = "larder", "a-larder"
KSERVES = "inferenceservice.serving.kserve.io"


@pytest.fixture
def ours_first(site: KServeSite) -> Iterator[None]:
    """Our webhook configuration under a name that sorts before KServe's, instead of the usual one."""
    api = site.larder.api
    found = api.get(f"{CONFIGURATIONS}/{OURS}")
    renamed = {key: found[key] for key in ("apiVersion", "kind", "webhooks")} | {"metadata": {"name": FIRST}}
    api.delete(f"{CONFIGURATIONS}/{OURS}")
    site.larder.until(lambda: not _is_asked(site), "our webhook to be out of force")
    api.create(CONFIGURATIONS, renamed)
    site.larder.until(lambda: _is_asked(site), "our webhook to be in force under its other name")
    yield
    api.create(CONFIGURATIONS, renamed | {"metadata": {"name": OURS, "labels": found["metadata"]["labels"]}})
    api.delete(f"{CONFIGURATIONS}/{FIRST}")


def _is_asked(site: KServeSite) -> bool:
    try:
        site.larder.api.create(f"{PODS}?dryRun=All", base_model_pod("probe", "no-such-model"))
    except CallRefused as refusal:
        return "no-such-model" in str(refusal)
    return False


@pytest.mark.usefixtures("ours_first")
def test_pods_get_the_cache_even_if_our_webhook_runs_before_that_of_kserve(site: KServeSite) -> None:
    names = [c["metadata"]["name"] for c in site.larder.api.get(CONFIGURATIONS)["items"]]
    assert sorted(names).index(FIRST) < sorted(names).index(KSERVES)
    uri = site.larder.upload()
    site.cache(uri)
    custom = {"containers": [CUSTOM | {"env": [{"name": "STORAGE_URI", "value": uri}]}]}
    of_uris = {"model": MODEL, "storageUris": [{"uri": uri, "mountPath": "/mnt/models"}]}
    for predictor in ({"model": MODEL | {"storageUri": uri}}, custom, of_uris):
        pod = site.served(predictor)
        assert (initializers(pod), not_cached(pod)) == ([], "")
        assert [m["name"] for m in mounts(pod).values()] == ["kserve-pvc-source"]
        assert site.placed(pod) in ("a", "b")
    alone = site.served({"model": MODEL | {"storageUri": f"{uri}2"}})
    assert initializers(alone) == [[f"{uri}2", "/mnt/models"]]
    assert "no ClusterModelCache holds" in not_cached(alone)
