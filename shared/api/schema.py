"""Generates the structural OpenAPI schemas of CRDs from msgspec Structs."""

from typing import Any

import msgspec

from shared.json_object import Json

_DROPPED = ("title", "default", "propertyNames")
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_QUANTITY = "x-larder-quantity"
_DEFAULT = "x-larder-default"  # a default that the API server fills in; those of the Structs are left out


def structural(kind: type) -> Json:
    """Return the schema of a Struct, with references inlined and `anyOf` with null resolved."""
    (root,), definitions = msgspec.json.schema_components([kind], ref_template="{name}")
    schema: Json = _inline(root, definitions)
    return schema


def _inline(node: Any, definitions: Json) -> Any:  # noqa: ANN401 - a JSON schema is any JSON
    if isinstance(node, list):
        return [_inline(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        node = definitions[node["$ref"]] | {k: v for k, v in node.items() if k != "$ref"}
    if _QUANTITY in node:
        kept = {k: v for k, v in node.items() if k not in ("anyOf", "type", "default", _QUANTITY)}
        return kept | _quantity_schema(node[_QUANTITY])
    if "anyOf" in node:
        return _inline(_without_null(node), definitions)
    inlined = {key: _inline_value(key, value, definitions) for key, value in node.items() if key not in _DROPPED}
    return _tidy(inlined)


def _quantity_schema(pattern: str) -> Json:
    """Return the schema of a quantity. Unlike `pattern`, a CEL rule can say in its message what to write."""
    advice = "is not a quantity; write a number with a unit, for example 500Gi or 20G"
    rule = {
        "rule": f"type(self) == string ? string(self).matches(r'{pattern}') : int(self) >= 0",
        "messageExpression": f"string(self) + ' {advice}'",
        "message": advice,
    }
    return {"x-kubernetes-int-or-string": True, "maxLength": 32, "x-kubernetes-validations": [rule]}


def _without_null(node: Json) -> Json:
    branches = [branch for branch in node["anyOf"] if branch != {"type": "null"}]
    rest = {k: v for k, v in node.items() if k not in ("anyOf", "default")}
    quantity = next((branch for branch in branches if _QUANTITY in branch), None)
    merged: Json = {**(quantity or branches[0]), **rest}
    return merged


def _inline_value(key: str, value: Any, definitions: Json) -> Any:  # noqa: ANN401 - as above
    if key == "properties":
        return {name: _inline(schema, definitions) for name, schema in value.items()}
    return _inline(value, definitions)


def _tidy(schema: Json) -> Json:
    if _DEFAULT in schema:
        schema["default"] = schema.pop(_DEFAULT)
    if "enum" in schema:
        schema["enum"] = [value for value in schema["enum"] if value is not None]
        schema.setdefault("type", "string")
    if schema.get("type") == "integer":
        schema.setdefault("format", "int64")
    if schema.get("required") == []:
        del schema["required"]
    if schema.get(_PRESERVE):
        schema.pop("additionalProperties", None)
    return schema
