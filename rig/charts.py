"""Generates the parts of the charts that come from other files: `python -m rig.charts [--check]`.

The CRDs of `crds/` go into the chart larder-crds, and the comments of the values.yaml of larder into its README.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_ROOT = Path(__file__).parents[1]
_LARDER = _ROOT / "charts" / "larder"
_FILES = _ROOT / "charts" / "larder-crds" / "files"
_BEGIN, _END = "<!-- values: made by `make charts` -->\n", "<!-- end of values -->\n"


@dataclass(frozen=True)
class Value:
    """One value of a chart: its dotted path, the comment above it, and its default as JSON."""

    path: str
    text: str
    default: str


def read_values(source: str) -> list[Value]:
    """Return the values of a values.yaml, in order; mappings in block style are split into their entries."""
    root = yaml.compose(source, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode):
        return []
    return list(_walk(root, (), source.splitlines()))


def _walk(node: yaml.MappingNode, path: tuple[str, ...], lines: list[str]) -> Iterator[Value]:
    for key, value in node.value:
        here = (*path, str(key.value))
        if isinstance(value, yaml.MappingNode) and not value.flow_style:
            yield from _walk(value, here, lines)
        else:
            yield Value(".".join(here), _comment(key, lines), json.dumps(_plain(value)))


def _comment(key: yaml.Node, lines: list[str]) -> str:
    """Return the comment that ends in the line above a key."""
    found: list[str] = []
    for line in reversed(lines[: key.start_mark.line]):
        if not line.lstrip().startswith("#"):
            break
        found.insert(0, line.strip().removeprefix("#").strip())
    return " ".join(found)


def _plain(node: yaml.Node) -> Any:  # noqa: ANN401 - a value is any YAML
    return yaml.safe_load(yaml.serialize(node))


def values_table(values: list[Value]) -> str:
    """Return the values as a Markdown table."""
    rows = [f"| `{v.path}` | {v.text} | `{v.default}` |" for v in values]
    return "\n".join(["| value | what it is | default |", "|---|---|---|", *rows]) + "\n"


def with_table(readme: str, table: str) -> str:
    """Return a README with the table inserted between its two markers."""
    head, _, rest = readme.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    return f"{head}{_BEGIN}\n{table}\n{_END}{tail}"


def wanted() -> dict[Path, str]:
    """Return every generated file with its wanted content."""
    readme, values = _LARDER / "README.md", _LARDER / "values.yaml"
    kinds = {_FILES / path.name: path.read_text() for path in sorted((_ROOT / "crds").glob("*.yaml"))}
    return kinds | {readme: with_table(readme.read_text(), values_table(read_values(values.read_text())))}


def main(arguments: list[str]) -> int:
    """Write the files, or with --check report which of them differ."""
    files = wanted()
    left = set(_FILES.glob("*.yaml")) - files.keys()
    if "--check" not in arguments:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for path in left:
            path.unlink()
        return 0
    differ = {path for path, text in files.items() if not path.exists() or path.read_text() != text}
    if stale := sorted(str(path.relative_to(_ROOT)) for path in differ | left):
        sys.stderr.write(f"{', '.join(stale)}: out of date; run `make charts`\n")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
