"""Manifests in etcd: one per revision, deleted when unused, and protected against foreign ConfigMaps."""

from collections.abc import Iterator

import pytest

from rig.binaries import Binaries
from rig.larder.objects import path_of
from rig.larder.programs import NAMESPACE
from rig.larder.site import Site
from tests.integration.system.sites import GPU, opened

KIND = "ClusterBaseModel"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
NOWHERE = {"pool": "none"}  # resolved, but on no node


@pytest.fixture(scope="module")
def collected(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster of one node whose controller deletes manifests after three seconds without a reference."""
    settings = {"LARDER_DRAIN_SECONDS": "1", "LARDER_LEASE_SECONDS": "4", "LARDER_MANIFEST_GRACE_SECONDS": "3"}
    with opened(binaries, tmp_path_factory.mktemp("collected"), settings, {"a": GPU}, replicas=1) as site:
        yield site


def lists(site: Site) -> dict[str, int]:
    """Return the size of each manifest in bytes, by the name of its ConfigMap."""
    found = site.api.get(f"{CONFIG_MAPS}?labelSelector=larder.dev/kind=manifest")["items"]
    return {item["metadata"]["name"]: len(str(item["binaryData"])) for item in found}


def list_of(site: Site, name: str) -> str:
    return f"manifest-{site.status(KIND, name).get('manifestDigest', '')}"


def wait_resolved(site: Site, name: str, other_than: str = "manifest-") -> str:
    site.until(lambda: list_of(site, name) not in (other_than, "manifest-"), f"{name} to be resolved")
    return list_of(site, name)


def test_a_manifest_is_deleted_with_the_last_model_that_refers_to_it(collected: Site) -> None:
    uri = collected.push()
    first, second = (collected.base_model(uri, nodeSelector=GPU) for _ in range(2))
    for name in (first, second):
        collected.wait_ready(KIND, name)
    name = list_of(collected, first)
    assert list_of(collected, second) == name
    unused = collected.base_model(nodeSelector=NOWHERE)
    loose = wait_resolved(collected, unused)
    collected.delete(KIND, first)
    collected.delete(KIND, unused)
    collected.until(lambda: loose not in lists(collected), "the unreferenced manifest to be gone")
    assert name in lists(collected)
    collected.delete(KIND, second)
    collected.until(lambda: name not in lists(collected), "the last list to be gone")


def test_changing_the_selection_stores_the_long_file_list_only_once(collected: Site) -> None:
    files = {f"{i:04}-{i * 7919 % 10007:05}.bin": i.to_bytes(4, "big") for i in range(1500)}
    name = collected.base_model(collected.push(files={"config.json": b"{}", **files}), nodeSelector=NOWHERE)
    whole = wait_resolved(collected, name)
    last = whole
    for i in range(8):
        change = {"spec": {"storage": {"parameters": {"ignorePatterns": f"{i:04}-*"}}}}
        collected.api.patch(path_of(KIND, name), change)
        last = wait_resolved(collected, name, last)
    ours = [size for named, size in lists(collected).items() if named in (whole, last) or size > 20_000]
    assert len([size for size in ours if size > 20_000]) == 1, "one long list for all selections"
    collected.until(lambda: lists(collected).keys() == {whole, last}, "the lists of earlier selections to be gone")


def test_a_foreign_config_map_is_a_conflict_until_it_is_deleted(collected: Site) -> None:
    uri = collected.push()
    taken = wait_resolved(collected, name := collected.base_model(uri, nodeSelector=NOWHERE))
    collected.delete(KIND, name)
    collected.until(lambda: taken not in lists(collected), "the list to be gone")
    collected.api.create(CONFIG_MAPS, {"metadata": {"name": taken}, "data": {"mine": "yes"}})
    name = collected.base_model(uri, nodeSelector=NOWHERE)
    message = collected.wait_reason(KIND, name, "NameConflict")
    assert f"ConfigMap {taken}" in message
    assert "delete it" in message
    collected.api.delete(f"{CONFIG_MAPS}/{taken}")
    assert wait_resolved(collected, name) == taken
