"""Writes the API reference from the Structs: `python -m shared.api.reference [--check] FILE`."""

import sys
from collections.abc import Iterator
from pathlib import Path

from shared.api.crds import crd
from shared.api.kinds import DEFINITIONS, Definition
from shared.json_object import Json

_HEAD = """\
<!-- Made by `make crds` from the Structs in shared/api. Change them, not this file. -->
# API reference

The custom resources of Larder and their fields, as also shown by `kubectl explain`.
[Concepts](concepts.md) explains the terms, [troubleshooting](troubleshooting.md) the reasons.

Fields in **bold** are required if their parent is set. `[]` marks the items of a list and `{}` the values of a map. A
quantity is a number with an optional unit, such as `500Gi` or `20G`.
"""
_CONDITIONS = "conditions"  # the same in all kinds, so their fields get no rows


def page() -> str:
    """Return the Markdown of all kinds."""
    return "\n".join([_HEAD, *(line for d in DEFINITIONS for line in _kind(d))]).rstrip() + "\n"


def _kind(definition: Definition) -> Iterator[str]:
    spec = crd(definition)["spec"]
    version = spec["versions"][0]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    yield f"## {definition.kind}"
    yield ""
    scope = "namespaced" if definition.namespaced else "cluster-scoped"
    names = ", ".join(f"`{n}`" for n in (definition.plural, *definition.short_names, *spec["names"]["categories"]))
    yield f"`{definition.group}/{definition.version}`, {scope}; for kubectl: {names}."
    if definition.open_spec:
        yield "Unknown fields are preserved."
    columns = ", ".join(column["name"] for column in version["additionalPrinterColumns"])
    yield f"`kubectl get {definition.plural} -o wide` prints Name, {columns}."
    yield ""
    same = next(d for d in DEFINITIONS if (d.spec, d.status) == (definition.spec, definition.status))
    if same != definition:
        yield from (f"Same fields as [{same.kind}](#{same.kind.lower()}).", "")
        return
    for part in ("spec", "status"):
        yield from (f"### {definition.kind} {part}", "", properties[part]["description"], "")
        yield from ("| field | type | description |", "|---|---|---|", *_rows(properties[part], ""), "")


def _rows(schema: Json, prefix: str) -> Iterator[str]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        shown = f"**`{prefix}{name}`**" if name in required else f"`{prefix}{name}`"
        if name == _CONDITIONS:
            yield f"| {shown} | list of metav1.Condition | {_description(field)} |"
            continue
        yield f"| {shown} | {_type(field)} | {_description(field)} |"
        yield from _rows(field, f"{prefix}{name}.")
        yield from _rows(field.get("items", {}), f"{prefix}{name}[].")
        yield from _rows(_values(field), f"{prefix}{name}{{}}.")


def _type(field: Json) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "enum" in field:
        return " or ".join(f"`{word}`" for word in field["enum"] if word)
    kind = str(field.get("type", "any"))
    if kind == "array":
        return f"list of {_type(field['items'])}"
    if values := _values(field):
        return f"map to {_type(values)}"
    return kind


def _description(field: Json) -> str:
    text: str = field.get("description") or field.get("items", {}).get("description", "")
    return text.replace("|", "\\|").replace("\n", " ")


def _values(field: Json) -> Json:
    """Return the schema of the values of a map; empty if the field is not a map."""
    values = field.get("additionalProperties")
    return values if isinstance(values, dict) else {}


def main(arguments: list[str]) -> int:
    """Write the page, or with --check report whether it differs."""
    path = Path(next(a for a in arguments if not a.startswith("-")))
    if "--check" not in arguments:
        path.write_text(page())
        return 0
    if path.exists() and path.read_text() == page():
        return 0
    sys.stderr.write(f"{path} differs from the Structs in shared/api; run `make crds`\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
