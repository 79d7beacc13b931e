"""The definitions in `crds/` match the Structs, and meet the requirements of the API server."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from shared.api.crds import crd, main, render
from shared.api.kinds import DEFINITIONS, Definition
from shared.json_object import Json
from tests.readers.kstatus import kstatus

CRDS = Path(__file__).parents[4] / "crds"
KEPT = "x-kubernetes-preserve-unknown-fields"


def kind(definition: Definition) -> str:
    return definition.kind


def schemas(node: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Every schema of a tree with its path."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from schemas(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from schemas(node[key], f"{path}[]")


def root(definition: Definition) -> Json:
    version: Json = crd(definition)["spec"]["versions"][0]
    schema: Json = version["schema"]["openAPIV3Schema"]
    return schema


@pytest.mark.parametrize("definition", DEFINITIONS, ids=kind)
def test_the_crd_files_are_generated_from_the_structs(definition: Definition) -> None:
    assert (CRDS / f"{definition.name}.yaml").read_text() == render(definition), "run `make crds`"


def test_there_are_no_other_crd_files_and_check_reports_a_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {p.name for p in CRDS.glob("*.yaml")} == {f"{d.name}.yaml" for d in DEFINITIONS}
    assert main([str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0
    changed = tmp_path / f"{DEFINITIONS[0].name}.yaml"
    changed.write_text(changed.read_text() + "\n")
    assert main(["--check", str(tmp_path)]) == 1
    assert changed.name in capsys.readouterr().err


@pytest.mark.parametrize("definition", DEFINITIONS, ids=kind)
def test_schemas_are_structural(definition: Definition) -> None:
    for path, schema in schemas(root(definition)):
        assert "$ref" not in schema, path
        assert "anyOf" not in schema, path
        typed = "type" in schema or KEPT in schema or "x-kubernetes-int-or-string" in schema
        assert typed, path
        assert not (schema.get("properties") and schema.get("additionalProperties")), path


@pytest.mark.parametrize("definition", DEFINITIONS, ids=kind)
def test_every_list_text_and_map_has_a_bound(definition: Definition) -> None:
    """Without one the API server cannot tell what a rule costs, and a careless client can fill etcd."""
    for path, schema in schemas(root(definition)):
        if path.count(".") < 2 or "conditions" in path or schema.get(KEPT):
            continue
        if schema.get("type") == "array":
            assert "maxItems" in schema, path


@pytest.mark.parametrize("definition", DEFINITIONS, ids=kind)
def test_unknown_fields_of_ome_manifests_are_kept_at_every_depth(definition: Definition) -> None:
    opened = [bool(s.get(KEPT)) for p, s in schemas(root(definition)) if s.get("properties") and p]
    assert all(opened) is definition.open_spec


@pytest.mark.parametrize("definition", DEFINITIONS, ids=kind)
def test_an_empty_status_is_valid(definition: Definition) -> None:
    assert msgspec.to_builtins(msgspec.convert({}, definition.status)) is not None
    status = root(definition)["properties"]["status"]
    assert "required" not in status


@pytest.mark.parametrize("definition", DEFINITIONS, ids=kind)
def test_columns_print_no_bytes_as_whole_numbers(definition: Definition) -> None:
    known = dict(schemas(root(definition)))
    whole = [path for _, kind_of, path, _ in definition.columns if kind_of == "integer"]
    assert [path for path in whole if "bytes" in known[path].get("description", "").lower()] == []


@pytest.mark.parametrize("definition", DEFINITIONS, ids=kind)
def test_a_new_object_is_in_progress_only_if_a_controller_observes_its_kind(definition: Definition) -> None:
    status = root(definition)["properties"]["status"].get("default", {})
    fresh = {"metadata": {"generation": 1}, "status": status}
    assert kstatus(fresh) == ("InProgress" if definition.has_observer else "Current")


@pytest.mark.parametrize("path", sorted(CRDS.glob("*.yaml")), ids=lambda p: p.stem)
def test_columns_read_fields_that_exist(path: Path) -> None:
    version = yaml.load(path.read_text(), yaml.CSafeLoader)["spec"]["versions"][0]
    known = {p for p, _ in schemas(version["schema"]["openAPIV3Schema"])}
    for column in version["additionalPrinterColumns"]:
        where = column["jsonPath"].partition("[")[0]
        assert where.startswith(".metadata.") or where in known, column
