"""What admission relies on in every catalog: the in-memory twin, and that of a replica."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller.admission.catalog.port import Catalog, CatalogModel
from controller.placement.volume_names import SnapshotKey, hashed_name
from tests.builders.api_server import Objects, serving
from tests.conformance.admission.catalogs import MANAGED, FilledCatalog, FilledMemory, FilledState


@pytest.fixture(params=["memory", "state"])
async def filled(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[FilledCatalog]:
    if request.param == "memory":
        yield FilledMemory()
        return
    objects = Objects()
    async with serving(objects, tmp_path) as kube:
        yield FilledState(objects, kube)


@pytest.fixture
def catalog(filled: FilledCatalog) -> Catalog:
    return filled.catalog


def identity(model: CatalogModel | None) -> str:
    return model.id if model else ""


async def test_a_namespaces_own_base_model_takes_precedence(filled: FilledCatalog, catalog: Catalog) -> None:
    filled.declare_base_model("", "m")
    assert identity(catalog.base_model("team", "m")) == "m"
    filled.declare_base_model("team", "m")
    assert identity(catalog.base_model("team", "m")) == "team_m"
    assert identity(catalog.base_model("other", "m")) == "m"
    assert identity(catalog.base_model("team", "m", "ClusterBaseModel")) == "m"
    assert catalog.base_model("other", "m", "BaseModel") is None
    assert catalog.base_model("team", "unknown") is None


async def test_a_namespace_sees_its_own_models_and_the_shared_ones(filled: FilledCatalog, catalog: Catalog) -> None:
    filled.declare_base_model("team", "own")
    filled.declare_base_model("other", "secret")
    filled.declare_cache("shared")
    filled.declare_model_cache("filled")
    assert set(catalog.names("team")) == {"own", "shared", "filled"}
    assert set(catalog.names("elsewhere")) == {"shared"}
    assert [model.id for model in catalog.cluster_model_caches()] == ["shared"]
    assert [(model.name, model.claim) for model in catalog.model_caches("team")] == [("filled", "filled")]
    assert list(catalog.model_caches("other")) == []


async def test_objects_of_a_foreign_kind_are_managed_only_if_they_opt_in(
    filled: FilledCatalog, catalog: Catalog
) -> None:
    filled.set_foreign("BaseModel")
    assert not catalog.manages("BaseModel", {})
    assert catalog.manages("BaseModel", MANAGED)
    assert catalog.manages("ClusterBaseModel", {})


async def test_groups_are_found_with_their_members(filled: FilledCatalog, catalog: Catalog) -> None:
    filled.declare_group("gpus", "a", "b")
    filled.create_group_unseen("new")
    found = catalog.group("gpus")
    assert found is not None
    assert found.metadata.name == "gpus"
    assert sorted(member.name for member in catalog.nodes_of_group("gpus")) == ["a", "b"]
    assert (catalog.group("new"), list(catalog.nodes_of_group("new"))) == (None, [])
    assert list(await catalog.group_names([])) == ["gpus"]
    assert list(await catalog.group_names(["new", "typo"])) == ["gpus", "new"]


async def test_a_model_lacks_space_only_on_the_node_that_reports_it(filled: FilledCatalog, catalog: Catalog) -> None:
    filled.declare_cache("m")
    filled.fill_up("a", "m")
    (model,) = catalog.cluster_model_caches()
    assert [catalog.lacks_space(model, node) for node in ("a", "b")] == [True, False]


async def test_paths_of_a_model_are_known_once_its_files_were_read(filled: FilledCatalog, catalog: Catalog) -> None:
    filled.declare_cache("m", ("a/config.json", "b"))
    (model,) = catalog.cluster_model_caches()
    assert catalog.kind_of_path(model, "b") is None
    await catalog.read_files(model)
    kinds = [catalog.kind_of_path(model, path) for path in ("a", "a/config.json", "b", "c")]
    assert kinds == ["directory", "file", "file", "absent"]


async def test_a_claim_name_is_hashed_unless_it_is_free_or_belongs_to_the_serving_snapshot(
    filled: FilledCatalog, catalog: Catalog
) -> None:
    wanted, newer = SnapshotKey("m", "r1"), SnapshotKey("m", "r2")
    assert catalog.claim_name("team", wanted, "r1") == "m"
    assert catalog.claim_name("team", newer, "r1") == hashed_name(newer)
    filled.create_claim("m", "m@r1")
    assert catalog.claim_name("team", wanted, "r1") == "m"
    filled.create_claim("taken", "other@r1")
    taken = SnapshotKey("taken", "r1")
    assert catalog.claim_name("team", taken, "r1") == hashed_name(taken)
    assert catalog.claim_name("elsewhere", taken, "r1") == "taken"


async def test_users_of_models_and_claims_are_found_by_namespace(filled: FilledCatalog, catalog: Catalog) -> None:
    filled.run_pod("b", "m")
    filled.run_pod("a", "other")
    filled.run_pod("d", "team_m")
    filled.run_pod("e", "elsewhere_m")
    filled.run_injected_pod("c", "model-x")
    assert list(catalog.users_of("ClusterBaseModel", "", "m")) == ["team/b"]
    assert list(catalog.users_of("BaseModel", "team", "m")) == ["team/d"]
    assert list(catalog.users_of("BaseModel", "elsewhere", "m")) == []
    assert list(catalog.users_of_claim("team", "model-x")) == ["team/c"]
    assert list(catalog.users_of_claim("elsewhere", "model-x")) == []


async def test_injectable_models_are_found_by_name_within_their_namespace(
    filled: FilledCatalog, catalog: Catalog
) -> None:
    filled.create_model("ready", "Ready")
    filled.create_model("loading", "Downloading")
    found = await catalog.injectable_models("team", ["ready", "loading"])
    assert {name: (model.usable, model.claim) for name, model in found.items()} == {
        "ready": (True, "model-ready"),
        "loading": (False, "model-loading"),
    }
    assert await catalog.injectable_models("team", ["unknown"]) == {}
    assert await catalog.injectable_models("elsewhere", ["ready"]) == {}


async def test_storage_classes_are_found_by_name(filled: FilledCatalog, catalog: Catalog) -> None:
    filled.create_storage_class("fast")
    assert [await catalog.has_storage_class(name) for name in ("fast", "typo")] == [True, False]
