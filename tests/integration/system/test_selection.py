"""Which files of a repository are downloaded: patterns, duplicate weights and pickles."""

import os
import pickle

import pytest

from rig.errors import CallRefused
from rig.larder.objects import path_of
from rig.larder.site import Site
from tests.builders.model_files import random_safetensors
from tests.readers.directories import files_of


def repository(**others: bytes) -> dict[str, bytes]:
    """Return the files of a repository with three copies of its weights; their contents are unique to each test."""
    return {
        "config.json": b"{}",
        "model.safetensors": random_safetensors(300_000),
        "pytorch_model.bin": os.urandom(310_000),
        "original/consolidated.00.pth": os.urandom(305_000),
        "original/params.json": b"{}",
        **others,
    }


def test_a_cache_downloads_the_selected_files_and_its_status_lists_the_others(site: Site) -> None:
    uri = site.push(files=repository())
    cache = site.cache(uri, duplicateWeights="skip", ignorePatterns=["original/params.json"])
    status = site.wait_ready("ClusterModelCache", cache)
    revision = status["resolvedRevision"]
    for node in ("a", "b"):
        assert files_of(site.snapshot(node, cache, revision)) == {"config.json", "model.safetensors"}
    commit = site.hub.head(uri.removeprefix("hf://"))
    assert revision == f"{commit}-{status['selection']}"
    assert status["size"] == 300_002
    assert status["leftOut"] == {
        "files": 3,
        "size": 615_002,
        "duplicateSize": 615_000,
        "names": ["pytorch_model.bin", "original/consolidated.00.pth", "original/params.json"],
    }
    assert site.labels("a")[f"model-cache-ready-{cache}"] == "true"


def test_the_file_selection_of_a_base_model_can_be_changed(site: Site) -> None:
    uri = site.push(files=repository())
    model = site.base_model(uri, nodeSelector={"kubernetes.io/hostname": "c"})
    whole = site.wait_ready("ClusterBaseModel", model)
    assert "leftOut" not in whole
    assert len(files_of(site.snapshot("c", model, whole["servingRevision"]))) == 5

    selection = {"allowPatterns": "*.json, *.safetensors\noriginal/", "ignorePatterns": "*.pth"}
    path = path_of("ClusterBaseModel", model)
    site.api.patch(path, {"spec": {"storage": {"parameters": selection}}})
    site.until(lambda: site.status("ClusterBaseModel", model)["servingRevision"] != whole["servingRevision"], "a flip")
    some = site.wait_ready("ClusterBaseModel", model)
    assert files_of(site.snapshot("c", model, some["servingRevision"])) == {
        "config.json",
        "model.safetensors",
        "original/params.json",
    }
    site.until(lambda: not site.snapshot("c", model, whole["servingRevision"]).exists(), "the whole list to be gone")

    site.api.patch(path, {"spec": {"storage": {"parameters": None}}})
    site.until(lambda: site.status("ClusterBaseModel", model)["servingRevision"] == whole["servingRevision"], "a flip")
    site.until(lambda: "leftOut" not in site.status("ClusterBaseModel", model), "nothing to be left out")
    site.delete("ClusterBaseModel", model)  # what node c holds counts for the limits of other tests
    site.until(lambda: site.is_gone("ClusterBaseModel", model), "the model to be gone")


def test_two_objects_with_different_file_selections_of_one_source_conflict(site: Site) -> None:
    uri, name = site.push(files=repository()), site.name("both")
    site.cache(uri, name=name, allowPatterns=["*.json"])
    site.wait_ready("ClusterModelCache", name)
    site.base_model(uri, name=name, nodeSelector={"kubernetes.io/hostname": "a"})
    message = site.wait_reason("ClusterBaseModel", name, "NameConflict")
    assert f"ClusterModelCache {name} is older" in message
    assert "a different selection of its files" in message
    selection = {"allowPatterns": "*.json"}
    site.api.patch(path_of("ClusterBaseModel", name), {"spec": {"storage": {"parameters": selection}}})
    site.wait_ready("ClusterBaseModel", name)
    both = [["ClusterBaseModel", "ClusterModelCache"]]
    site.until(lambda: site.claimants("a", name) == both, "both to claim one entry")


def test_patterns_that_match_no_file_are_reported_with_the_available_files(site: Site) -> None:
    cache = site.cache(site.push(files=repository()), allowPatterns=["*.gguf"])
    message = site.wait_reason("ClusterModelCache", cache, "SourceNotFound")
    assert "none of the 5 files" in message
    assert "allowPatterns *.gguf" in message
    site.api.patch(path_of("ClusterModelCache", cache), {"spec": {"allowPatterns": ["*.json"]}})
    site.wait_ready("ClusterModelCache", cache)


def test_an_invalid_parameter_is_refused(site: Site) -> None:
    phrase = r"invalid file selection: storage\.parameters\.allowPickle is 'no'; write true or false"
    with pytest.raises(CallRefused, match=phrase):
        site.base_model(nodeSelector={"kubernetes.io/hostname": "c"}, parameters={"allowPickle": "no"})


@pytest.mark.parametrize("name", ["model-00001-of-00002.safetensors", "tokenizer.model"])
def test_a_pickle_under_another_name_is_refused_and_removed(site: Site, name: str) -> None:
    renamed = pickle.dumps({"weight": os.urandom(500_000)}, 4)
    earlier = {p for node in ("a", "b") for p in site.store(node).glob("partial/*")}  # of other tests' models
    cache = site.cache(
        site.push(files=repository(**{name: renamed})), allowPickle=False, ignorePatterns=["*.bin", "*.pth"]
    )
    message = site.wait_reason("ClusterModelCache", cache, "PickleRefused")
    assert f"{name!r} of hf://" in message
    assert "allowPickle: false" in message
    status = site.status("ClusterModelCache", cache)
    for node in ("a", "b"):
        site.until(lambda: site.phases(node, cache) == ["Failed"], "both nodes to refuse it")  # noqa: B023 - waited for here
        assert not site.snapshot(node, cache, status["resolvedRevision"]).exists()
        assert f"model-cache-ready-{cache}" not in site.labels(node)
        unfinished = set(site.store(node).glob("partial/*")) - earlier
        assert all(p.stat().st_size < 300_000 for p in unfinished)

    path = path_of("ClusterModelCache", cache)
    site.api.patch(path, {"spec": {"ignorePatterns": ["*.bin", "*.pth", name]}})
    ready = site.wait_ready("ClusterModelCache", cache)
    assert name not in files_of(site.snapshot("a", cache, ready["servingRevision"]))


def test_a_model_without_pickles_becomes_ready_where_pickles_are_refused(site: Site) -> None:
    files = {
        "config.json": b"{}",
        "model.safetensors": random_safetensors(300_000),
        "tokenizer.model": b"\n\x0e\n\x05<unk>",
    }
    cache = site.cache(site.push(files=files), allowPickle=False)
    status = site.wait_ready("ClusterModelCache", cache)
    assert files_of(site.snapshot("a", cache, status["servingRevision"])) == set(files)
