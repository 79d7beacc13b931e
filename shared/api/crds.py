"""Writes `crds/*.yaml` from the Structs: `python -m shared.api.crds [--check] DIR`."""

import sys
from pathlib import Path
from typing import Any

import yaml

from shared.api.kinds import DEFINITIONS, Definition
from shared.api.schema import structural
from shared.json_object import Json

# Until a controller writes a status, kstatus must report the object as in progress, not as current.
_NOT_OBSERVED = {"observedGeneration": -1}
_PRESERVE_UNKNOWN = {"x-kubernetes-preserve-unknown-fields": True}


def crd(definition: Definition) -> Json:
    """Return the CustomResourceDefinition of a kind."""
    names: Json = {
        "kind": definition.kind,
        "listKind": f"{definition.kind}List",
        "plural": definition.plural,
        "singular": definition.kind.lower(),
        "shortNames": list(definition.short_names),
        "categories": ["larder"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition.name, "labels": {"app.kubernetes.io/part-of": "larder"}},
        "spec": {
            "group": definition.group,
            "names": names,
            "scope": "Namespaced" if definition.namespaced else "Cluster",
            "versions": [_version(definition)],
        },
    }


def _version(definition: Definition) -> Json:
    spec, status = structural(definition.spec), structural(definition.status)
    if definition.open_spec:
        spec, status = _open(spec), _open(status)
    properties: Json = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": spec,
        "status": status | ({"default": _NOT_OBSERVED} if definition.has_observer else {}),
    }
    required = ["spec"] if "required" in spec else []
    schema: Json = {"type": "object", "properties": properties} | ({"required": required} if required else {})
    if definition.rules:
        schema["x-kubernetes-validations"] = [{"rule": rule, "message": message} for rule, message in definition.rules]
    return {
        "name": definition.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            {"name": name, "type": kind, "jsonPath": path} | ({"priority": priority} if priority else {})
            for name, kind, path, priority in definition.columns
        ],
    }


def _open(schema: Any) -> Any:  # noqa: ANN401 - a JSON schema is any JSON
    """Return a schema that preserves unknown fields at every depth."""
    if isinstance(schema, list):
        return [_open(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: _open(value) for key, value in schema.items()}
    return inner | _PRESERVE_UNKNOWN if isinstance(schema.get("properties"), dict) else inner


def render(definition: Definition) -> str:
    """Return a CustomResourceDefinition as YAML."""
    head = "# Made by `make crds` from shared/api. Change the Structs there, not this file.\n"
    return head + yaml.safe_dump(crd(definition), sort_keys=False, width=120, allow_unicode=True)


def main(arguments: list[str]) -> int:
    """Write the files, or with --check report which of them differ."""
    check = "--check" in arguments
    folder = Path(next(a for a in arguments if not a.startswith("-")))
    wanted = {folder / f"{d.name}.yaml": render(d) for d in DEFINITIONS}
    if check:
        found = {path: path.read_text() for path in folder.glob("*.yaml")}
        stale = sorted(str(p) for p in wanted.keys() | found.keys() if wanted.get(p) != found.get(p))
        if stale:
            sys.stderr.write(f"{', '.join(stale)}: differ from the Structs in shared/api; run `make crds`\n")
        return 1 if stale else 0
    for path, text in wanted.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
