"""If another product owns a kind, Larder manages only objects that opt in."""

import copy
from collections.abc import Iterator

import pytest
import yaml

from rig.binaries import Binaries
from rig.errors import CallRefused
from rig.larder.objects import path_of
from rig.larder.site import Site
from rig.s3 import S3
from shared.json_object import Json
from tests.integration.system.absent import ABSENT, CRDS, DEFINITIONS, without_ome

MODEL, CACHE = "ClusterBaseModel", "ClusterModelCache"
OURS = {"larder.dev/managed": "true"}
FINALIZER = "larder.dev/finalizer"
_THEIR_STATUS: Json = {
    "type": "object",
    "properties": {
        "state": {"type": "string"},
        "lifecycle": {"type": "string"},
        "nodesReady": {"type": "array", "items": {"type": "string"}},
        "nodesFailed": {"type": "array", "items": {"type": "string"}},
        "audit": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}

KEEPS_ALL: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def foreign_definition(file: str) -> Json:
    """Return our definition without our label and with a status that drops our fields."""
    definition: Json = yaml.safe_load((CRDS / file).read_text())
    del definition["metadata"]["labels"]
    (version,) = definition["spec"]["versions"]
    version["schema"]["openAPIV3Schema"]["properties"]["status"] = _THEIR_STATUS
    version["additionalPrinterColumns"] = []
    return definition


@pytest.fixture(scope="module")
def site(binaries: Binaries, s3: S3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A separate cluster, whose definitions belong to another product after the controller's restart."""
    with without_ome(binaries, s3, tmp_path_factory.mktemp("others"), {}) as site:
        for name in ABSENT:
            site.api.create(DEFINITIONS, foreign_definition(f"{name}.yaml"))
        site.until(lambda: site.api.answers("/apis/ome.io/v1beta1/clusterbasemodels"), "the kind to be served")
        site.cluster.controllers[0].start()
        yield site


def declare(site: Site, uri: str, **annotations: str) -> str:
    spec = {"modelFormat": {"name": "safetensors"}, "storage": {"storageUri": uri, "path": "/raid/models/x"}}
    return site.create(MODEL, site.name("model"), spec, annotations=annotations)


def pod(name: str, model: str) -> Json:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"metadata": {"name": name, "annotations": {"ome.io/base-model-name": model}}, "spec": spec}


def finalizers(site: Site, name: str) -> list[str]:
    found: list[str] = site.get(MODEL, name)["metadata"].get("finalizers", [])
    return found


def cache_finalizers(site: Site, name: str) -> list[str]:
    found: list[str] = site.get(CACHE, name)["metadata"].get("finalizers", [])
    return found


def managed(site: Site) -> str:
    """Create a model that opts in, and return its name once it is Ready."""
    name = declare(site, site.push(), **OURS)
    site.until(lambda: site.status(MODEL, name).get("state") == "Ready", f"{name} to be Ready")
    return name


def test_objects_of_another_product_that_did_not_opt_in_are_not_touched(site: Site) -> None:
    before = [declare(site, uri) for uri in (site.push(), "oci://n/x/b/bucket/o/y", "file:///raid")]
    seen = [site.get(MODEL, name) for name in before]
    managed(site)  # by now the others would have been served, too
    assert [site.get(MODEL, name) for name in before] == seen
    assert all(site.entries("a", name) == [] for name in before)
    for name in before:
        site.delete(MODEL, name)
        assert site.is_gone(MODEL, name), "nothing of ours holds it"


def test_pods_with_another_products_models_are_not_changed(site: Site) -> None:
    for model in (declare(site, site.push()), "no-such-model"):
        name = site.name("pod")
        admitted = site.pod(pod(name, model))
        assert admitted["metadata"]["annotations"] == {"ome.io/base-model-name": model}
        assert "nodeSelector" not in admitted["spec"]
        site.delete_pod(name)


def test_a_model_that_opts_in_is_served_although_its_kind_lacks_our_status_fields(site: Site) -> None:
    name = managed(site)
    status = site.status(MODEL, name)
    assert status["nodesReady"] == ["a"]
    assert "manifestDigest" not in status, "the definition is not like another product's"
    assert FINALIZER in finalizers(site, name)
    (entry,) = site.entries("a", name)
    admitted = site.pod(pod(site.name("pod"), name))
    assert admitted["spec"]["nodeSelector"][f"model-cache-ready-{name}"] == "true"
    site.delete_pod(admitted["metadata"]["name"])
    (controller,) = site.cluster.controllers
    controller.process.stop()
    controller.start()
    managed(site)  # by now the next leader is at work
    (later,) = site.entries("a", name)
    kept = ("revision", "manifest", "since")
    assert [later[k] for k in kept] == [entry[k] for k in kept], "what was resolved is known to the next leader"
    with pytest.raises(CallRefused, match="no installed source serves ftp"):
        declare(site, "ftp://nowhere", **OURS)


def test_a_refresh_is_handled_once_although_the_kind_lacks_our_fields(site: Site) -> None:
    uri = site.push()
    repo = uri.removeprefix("hf://")
    name = declare(site, uri, **OURS)
    site.until(lambda: site.status(MODEL, name).get("state") == "Ready", f"{name} to be Ready")
    site.push(repo=repo)
    site.api.patch(path_of(MODEL, name), {"metadata": {"annotations": {"larder.dev/refresh": "1"}}})
    new = site.hub.head(repo)
    site.until(lambda: [e["revision"] for e in site.entries("a", name)] == [new], "the new revision alone to be there")
    site.hub.journal.clear()
    (controller,) = site.cluster.controllers
    controller.process.stop()
    controller.start()
    managed(site)  # by now the next leader has looked at everything
    assert site.hub.journal.requests(f"/api/models/{repo}*") == []


def test_a_refresh_is_handled_once_if_the_kind_preserves_unknown_fields(site: Site) -> None:
    uri, path = site.push(), f"{DEFINITIONS}/clusterbasemodels.ome.io"
    repo = uri.removeprefix("hf://")
    definition = site.api.get(path)
    keeping = copy.deepcopy(definition["spec"]["versions"])
    keeping[0]["schema"]["openAPIV3Schema"]["properties"]["status"] = KEEPS_ALL
    site.api.patch(path, {"spec": {"versions": keeping}})
    probe = declare(site, uri)
    try:
        site.until(lambda: _preserves_unknown_fields(site, probe), "the API server to keep what it does not know")
        name = declare(site, uri, **OURS)
        site.until(lambda: "manifestDigest" in site.status(MODEL, name), "fields of ours to be kept")
        asked = len(site.hub.journal.requests(f"/api/models/{repo}*"))
        site.push(repo=repo)
        site.api.patch(path_of(MODEL, name), {"metadata": {"annotations": {"larder.dev/refresh": "1"}}})
        site.until(lambda: site.status(MODEL, name).get("refreshed") == "1", "the refresh to be answered")
        assert site.status(MODEL, name)["resolvedRevision"] == site.hub.head(repo)
        assert len(site.hub.journal.requests(f"/api/models/{repo}*")) == 2 * asked
    finally:
        site.api.patch(path, {"spec": {"versions": definition["spec"]["versions"]}})


def _preserves_unknown_fields(site: Site, name: str) -> bool:
    """Return whether the kind preserves a field that the definition lacks."""
    return "unheard" in site.api.patch(f"{path_of(MODEL, name)}/status", {"status": {"unheard": site.name()}})["status"]


def test_status_fields_written_by_others_are_kept(site: Site) -> None:
    name = declare(site, site.push(), **OURS)
    theirs = {"audit": {"by": "them", "list": [1]}, "lifecycle": "Public"}
    site.api.patch(f"{path_of(MODEL, name)}/status", {"status": theirs})
    site.until(lambda: site.status(MODEL, name).get("state") == "Ready", f"{name} to be Ready")
    assert site.status(MODEL, name).items() >= theirs.items()


def test_a_model_that_no_longer_opts_in_is_released(site: Site) -> None:
    name = managed(site)
    (entry,) = site.entries("a", name)
    site.api.patch(path_of(MODEL, name), {"metadata": {"annotations": {"larder.dev/managed": None}}})
    site.until(lambda: not finalizers(site, name), "our finalizer to be gone")
    site.until(lambda: not site.snapshot("a", name, entry["revision"]).exists(), "the files to be gone")
    site.delete(MODEL, name)
    site.until(lambda: site.is_gone(MODEL, name), f"{name} to be gone")


def test_a_deleted_model_is_gone_only_after_its_files(site: Site) -> None:
    name = managed(site)
    (entry,) = site.entries("a", name)
    site.delete(MODEL, name)
    site.until(lambda: site.is_gone(MODEL, name), f"{name} to be gone")
    assert not site.snapshot("a", name, entry["revision"]).exists()


def test_a_definition_that_changes_its_owner_is_released_and_taken_over_again(site: Site) -> None:
    site.create("ModelCacheNodeGroup", "gpus", {"storageLimit": "1Gi", "nodeSelector": {"gpu": "yes"}})
    definition = f"{DEFINITIONS}/clustermodelcaches.serving.kserve.io"
    before, leaves = site.cache(), site.cache()
    revision = site.wait_ready(CACHE, before)["resolvedRevision"]
    site.wait_ready(CACHE, leaves)
    assert FINALIZER in cache_finalizers(site, before)
    site.api.patch(definition, {"metadata": {"labels": {"app.kubernetes.io/part-of": None}}})
    site.until(lambda: not cache_finalizers(site, before), "the cache to be left alone")
    during = site.cache()
    (controller,) = site.cluster.controllers
    assert "has lost the label" in controller.log.read_text()
    controller.process.stop()
    controller.start()
    managed(site)  # by now the next leader has looked at the node
    site.delete(CACHE, leaves)
    site.until(lambda: site.entries("a", leaves) == [], "the entry of the deleted model to be gone")
    assert [e.get("state", "Present") for e in site.entries("a", before)] == ["Present"], "a lost label takes no files"
    assert site.snapshot("a", before, revision).exists()
    assert site.entries("a", during) == []
    site.api.patch(definition, {"metadata": {"labels": {"app.kubernetes.io/part-of": "larder"}}})
    site.wait_ready(CACHE, during)
    site.wait_ready(CACHE, before)
