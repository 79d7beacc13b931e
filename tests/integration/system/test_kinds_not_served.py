"""If a group of kinds is not installed, Larder serves the others, and these as soon as they are installed."""

from collections.abc import Iterator

import pytest
import yaml

from rig.binaries import Binaries
from rig.errors import CallRefused
from rig.larder.site import Site
from rig.s3 import S3
from tests.integration.system.absent import ABSENT, CRDS, DEFINITIONS, without_ome

MODELS = "/apis/ome.io/v1beta1/namespaces/default/basemodels"


@pytest.fixture(scope="module")
def site(binaries: Binaries, s3: S3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A separate cluster, whose controller finds no kinds of ome.io after its restart."""
    settings = {"LARDER_ALLOWED_SOURCES": "hf://allowed"}
    with without_ome(binaries, s3, tmp_path_factory.mktemp("absent"), settings) as site:
        site.cluster.controllers[0].start()
        site.create("ModelCacheNodeGroup", "gpus", {"storageLimit": "1Gi", "nodeSelector": {"gpu": "yes"}})
        yield site


def test_other_kinds_are_served_and_missing_ones_are_picked_up_once_installed(site: Site) -> None:
    cache = site.cache()
    site.wait_ready("ClusterModelCache", cache)
    named = {"name": site.name("pod"), "annotations": {"ome.io/base-model-name": "any"}}
    pod = site.pod({"metadata": named, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    assert "nodeSelector" not in pod["spec"], "pods that name a kind that is not installed are left alone"
    site.delete_pod(pod["metadata"]["name"])
    (controller,) = site.cluster.controllers
    reported = controller.log.read_text().rpartition('"stopping"')[2].splitlines()  # since it was started without them
    asked = [line for line in reported if '"watch_interrupted"' in line and 'basemodels"' in line]
    assert asked == [], "kinds that are not installed are requested only rarely"
    for name in ABSENT:
        site.api.create(DEFINITIONS, yaml.safe_load((CRDS / f"{name}.yaml").read_text()))
    site.until(lambda: site.api.answers("/apis/ome.io/v1beta1/clusterbasemodels"), "the kind to be served")
    site.wait_ready("ClusterBaseModel", site.base_model())
    site.wait_ready("ClusterModelCache", cache)


def declare(site: Site, name: str, uri: str) -> None:
    spec = {"modelFormat": {"name": "safetensors"}, "storage": {"storageUri": uri}}
    body = {"apiVersion": "ome.io/v1beta1", "kind": "BaseModel", "metadata": {"name": name}, "spec": spec}
    site.api.create(MODELS, body)


def test_a_namespaced_model_may_only_use_allowed_sources(site: Site) -> None:
    with pytest.raises(CallRefused, match=r"allowedSources") as refused:
        declare(site, "m", "https://models.test/f.bin")
    assert "hf://allowed" in str(refused.value)
    with pytest.raises(CallRefused, match=r"hf://allowed2/m@main is not among"):
        declare(site, "m", "hf://allowed2/m")
    declare(site, "m", "hf://allowed/m")
    site.api.delete(f"{MODELS}/m")


def test_a_disallowed_source_that_bypassed_admission_is_reported_in_the_status(site: Site) -> None:
    webhooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    for found in site.api.get(webhooks)["items"]:
        site.api.delete(f"{webhooks}/{found['metadata']['name']}")
    try:
        site.until(lambda: declared(site, "unseen"), "admission to be off")
        site.until(lambda: ready(site, "unseen").get("reason") == "SourceNotAllowed", "the refusal")
        assert "allowedSources" in ready(site, "unseen")["message"]
        assert site.api.get(f"{MODELS}/unseen")["status"]["state"] == "Failed"
        assert site.entries("a", "default_unseen") == []
    finally:
        site.cluster.aim_webhooks(site.cluster.controllers[0])
        site.api.delete(f"{MODELS}/unseen")


def declared(site: Site, name: str) -> bool:
    try:
        declare(site, name, "hf://elsewhere/m")
    except CallRefused:
        return False
    return True


def ready(site: Site, name: str) -> dict[str, str]:
    conditions = site.api.get(f"{MODELS}/{name}").get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == "Ready"), {})
