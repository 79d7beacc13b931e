"""The cluster-wide file selection: defaults for models without one, and what is forbidden for all."""

import os
import pickle
from collections.abc import Iterator

import pytest

from rig.binaries import Binaries
from rig.larder.site import Site
from tests.builders.model_files import random_safetensors
from tests.integration.system.sites import GPU, opened
from tests.readers.directories import files_of


@pytest.fixture(scope="module")
def site(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster whose administrator excludes duplicate weights, notes and pickles."""
    settings = {
        "LARDER_DRAIN_SECONDS": "1",
        "LARDER_DRIFT_CHECK_SECONDS": "1",
        "LARDER_IGNORE_PATTERNS": "*.md,notes/",
        "LARDER_DUPLICATE_WEIGHTS": "skip",
        "LARDER_ALLOW_PICKLE": "false",
    }
    with opened(binaries, tmp_path_factory.mktemp("files"), settings, {"a": GPU}, replicas=1) as site:
        yield site


def repository() -> dict[str, bytes]:
    return {
        "README.md": b"# Model",
        "notes/a": b"a",
        "model.safetensors": random_safetensors(200_000),
        "pytorch_model.bin": pickle.dumps({"weight": os.urandom(200_000)}, 4),
    }


def test_a_model_without_a_file_selection_uses_the_cluster_default(site: Site) -> None:
    cache = site.cache(site.push(files=repository()))
    status = site.wait_ready("ClusterModelCache", cache)
    assert files_of(site.snapshot("a", cache, status["servingRevision"])) == {"model.safetensors"}
    assert status["leftOut"]["files"] == 3


def test_a_model_can_override_every_cluster_default_except_pickles(site: Site) -> None:
    uri = site.push(files=repository())
    cache = site.cache(uri, allowPatterns=["*.md", "*.safetensors"], duplicateWeights="keep")
    status = site.wait_ready("ClusterModelCache", cache)
    assert files_of(site.snapshot("a", cache, status["servingRevision"])) == {"README.md", "model.safetensors"}

    whole = site.cache(uri, allowPatterns=["*"], duplicateWeights="keep", allowPickle=True)
    assert "'pytorch_model.bin'" in site.wait_reason("ClusterModelCache", whole, "PickleRefused")


def test_a_model_that_follows_a_branch_keeps_its_file_selection(site: Site) -> None:
    uri, name = site.push(files=repository()), site.name("follows")
    spec = {"storageUri": uri, "nodeGroup": "gpus"}
    site.create("ClusterModelCache", name, spec, annotations={"larder.dev/drift": "Follow"})
    first = site.wait_ready("ClusterModelCache", name)
    site.push(files=repository(), repo=uri.removeprefix("hf://"))
    wanted = f"{site.hub.head(uri.removeprefix('hf://'))}-{first['selection']}"
    site.until(lambda: site.status("ClusterModelCache", name)["servingRevision"] == wanted, "the new commit to serve")
    status = site.wait_ready("ClusterModelCache", name)
    assert status["upstreamRevision"] == wanted
    assert [c["status"] for c in status["conditions"] if c["type"] == "Drifted"] in ([], ["False"])


def test_reserved_files_are_reused_with_the_same_file_selection(site: Site) -> None:
    uri, name = site.push(files=repository()), site.name("kept")
    storage = {"storageUri": uri, "nodeSelector": {"gpu": "yes"}}
    spec = {"storage": storage, "modelFormat": {"name": "x"}}
    site.create("ClusterBaseModel", name, spec, labels={"models.ome/reserve-model-artifact": "true"})
    revision = site.wait_ready("ClusterBaseModel", name)["resolvedRevision"]
    site.delete("ClusterBaseModel", name)
    site.until(lambda: site.is_gone("ClusterBaseModel", name), "the model to be gone")
    site.until(lambda: [e.get("claims", []) for e in site.entries("a", name)] == [[]], "its claim to be gone")

    site.push(files=repository(), repo=uri.removeprefix("hf://"))  # the branch moves on
    reuse = {**spec, "storage": {**storage, "downloadPolicy": "ReuseIfExists"}}
    site.create("ClusterBaseModel", name, reuse)
    status = site.wait_ready("ClusterBaseModel", name)
    assert (status["resolvedRevision"], status["selection"]) == (revision, revision.rpartition("-")[2])
