"""The paths of the revisions that models serve."""

import asyncio
import base64

import msgspec

from controller.admission.catalog.state_catalog import StateCatalog
from controller.sources.packed_manifests import pack
from controller.state.cluster_state import ClusterState
from shared.manifest import File, build_manifest
from tests.builders.api_server import Objects
from tests.builders.cluster import (
    cache,
    entry,
    model_node,
)
from tests.builders.model_caches import cache as model_cache


def keep_list(objects: Objects, *paths: str, archives: tuple[str, ...] = ()) -> str:
    """Store a manifest with these files as the controller does, and return its digest."""
    files = [File(path, 1) for path in paths] + [File(path, 1, archive="tar") for path in archives]
    manifest = build_manifest("hf://org/m@c", "r1", files)
    packed = pack(manifest)
    binary = {"manifest.json.z": base64.b64encode(packed.body).decode()}
    path = f"/api/v1/namespaces/ns/configmaps/manifest-{packed.digest}"
    objects.objects[path] = {"metadata": {"name": "x"}, "binaryData": binary}
    return packed.digest


async def test_paths_of_a_snapshot_are_known_once_its_list_was_read(
    catalog: StateCatalog, cluster: ClusterState, objects: Objects
) -> None:
    digest = keep_list(objects, "a/config.json", "b")
    cached = cache("m", "g")
    status = msgspec.structs.replace(cached.status, manifest_digest=digest)
    cluster.cluster_model_caches.upsert(msgspec.structs.replace(cached, status=status))
    (model,) = catalog.cluster_model_caches()
    assert catalog.kind_of_path(model, "a") is None
    await asyncio.gather(catalog.read_files(model), catalog.read_files(model))
    kinds = {path: catalog.kind_of_path(model, path) for path in ("a", "a/config.json", "b", "c", "a/conf")}
    assert kinds == {"a": "directory", "a/config.json": "file", "b": "file", "c": "absent", "a/conf": "absent"}
    await catalog.read_files(model)
    assert len(objects.asked) == 1


async def test_an_archive_does_not_count_as_a_path_of_the_snapshot(
    catalog: StateCatalog, cluster: ClusterState, objects: Objects
) -> None:
    digest = keep_list(objects, "config.json", archives=("weights",))
    cached = cache("m", "g")
    status = msgspec.structs.replace(cached.status, manifest_digest=digest)
    cluster.cluster_model_caches.upsert(msgspec.structs.replace(cached, status=status))
    (model,) = catalog.cluster_model_caches()
    await catalog.read_files(model)
    kinds = {path: catalog.kind_of_path(model, path) for path in ("config.json", "weights")}
    assert kinds == {"config.json": "file", "weights": "absent"}


async def test_paths_of_the_serving_revision_are_read_from_the_list_that_nodes_hold(
    catalog: StateCatalog, cluster: ClusterState, objects: Objects
) -> None:
    serving = keep_list(objects, "old.bin")
    cached = cache("m", "g")
    status = msgspec.structs.replace(cached.status, resolved_revision="r2", manifest_digest="0" * 64)
    cluster.cluster_model_caches.upsert(msgspec.structs.replace(cached, status=status))
    (model,) = catalog.cluster_model_caches()
    assert model.serving_revision == "r1"
    await catalog.read_files(model)
    assert catalog.kind_of_path(model, "old.bin") is None
    cluster.model_nodes.upsert(model_node("a", entry("m", manifest=serving)))
    await catalog.read_files(model)
    assert catalog.kind_of_path(model, "old.bin") == "file"


async def test_paths_are_unknown_if_the_list_cannot_be_read(catalog: StateCatalog, cluster: ClusterState) -> None:
    cluster.cluster_model_caches.upsert(cache("m", "g"))
    (model,) = catalog.cluster_model_caches()
    await catalog.read_files(model)
    assert catalog.kind_of_path(model, "a") is None


async def test_paths_of_a_model_cache_are_those_that_its_claim_was_filled_with(
    catalog: StateCatalog, cluster: ClusterState, objects: Objects
) -> None:
    filled = model_cache()
    status = msgspec.structs.replace(
        filled.status, serving_revision="r1", manifest_digest=keep_list(objects, "config.json")
    )
    cluster.model_caches.upsert(msgspec.structs.replace(filled, status=status))
    (model,) = catalog.model_caches("team")
    await catalog.read_files(model)
    assert catalog.kind_of_path(model, "config.json") == "file"


async def test_a_bounded_number_of_lists_is_kept(
    catalog: StateCatalog, cluster: ClusterState, objects: Objects
) -> None:
    for number in range(70):
        cached = cache(f"m{number}", "g")
        digest = keep_list(objects, f"file-{number}")
        status = msgspec.structs.replace(cached.status, manifest_digest=digest)
        cluster.cluster_model_caches.upsert(msgspec.structs.replace(cached, status=status))
    models = {model.name: model for model in catalog.cluster_model_caches()}
    for model in models.values():
        await catalog.read_files(model)
    known = [name for name, model in models.items() if catalog.kind_of_path(model, "x") is not None]
    assert known == list(models)[-64:]
