"""Generated parts of the charts are up to date, and every value is documented and in the schema."""

import json
from typing import Any

import pytest

from rig.charts import read_values, values_table, wanted, with_table
from rig.helm import LARDER
from rig.larder.objects import without_helm

SOURCE = """\
# Above everything.

# One value,
# in two lines.
one: 1
group:
  # A list.
  many: [a, b]
  # A mapping in one line.
  limits: {memory: 1Gi}
  # A list in lines.
  lines:
    - {x: y}
"""


def test_generated_files_are_current() -> None:
    stale = [str(path) for path, text in wanted().items() if not path.exists() or path.read_text() != text]
    assert not stale, f"{stale}: run `make charts`"


def test_values_are_read_with_the_comments_above_them() -> None:
    assert [(v.path, v.text, v.default) for v in read_values(SOURCE)] == [
        ("one", "One value, in two lines.", "1"),
        ("group.many", "A list.", '["a", "b"]'),
        ("group.limits", "A mapping in one line.", '{"memory": "1Gi"}'),
        ("group.lines", "A list in lines.", '[{"x": "y"}]'),
    ]


def test_the_table_of_a_readme_is_replaced_each_time() -> None:
    readme = "# Head\n<!-- values: made by `make charts` -->\n<!-- end of values -->\nTail\n"
    table = values_table(read_values(SOURCE))
    once = with_table(readme, table)
    assert with_table(once, table) == once
    assert once.startswith("# Head\n")
    assert once.endswith("Tail\n")
    assert "| `group.many` | A list. |" in once


@pytest.mark.parametrize("name", ["controller-rbac", "agent-rbac", "agent-policies"])
def test_objects_that_the_rig_installs_use_no_values_but_namespace_and_accounts(name: str) -> None:
    assert "{{" not in without_helm((LARDER / "templates" / f"{name}.yaml").read_text(), "any")


def test_every_value_is_documented_and_in_the_schema() -> None:
    schema = json.loads((LARDER / "values.schema.json").read_text())
    values = read_values((LARDER / "values.yaml").read_text())
    assert len(values) > 50
    for value in values:
        assert value.text, value.path
        if not value.path.partition(".")[2].startswith("resources."):
            assert _in_schema(schema, schema, value.path.split(".")), value.path


def _in_schema(schema: dict[str, Any], at: dict[str, Any], path: list[str]) -> bool:
    if "$ref" in at:
        at = schema["definitions"][at["$ref"].rpartition("/")[2]]
    if not path:
        return True
    inner = at.get("properties", {}).get(path[0])
    return inner is not None and _in_schema(schema, inner, path[1:])
