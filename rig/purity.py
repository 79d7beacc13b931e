"""Checks that pure modules stay pure: `python -m rig.purity`, a part of `make check`.

A module is pure if it is named `decide` or `report`, if it lies below a folder `placement` or `selection`, or if its
docstring says so (`SAYS_SO`). Neither a pure module nor any module of ours that it imports may import a name in
`FORBIDDEN`, and it may not call the clock of `datetime`.
"""

import ast
import re
import sys
from collections.abc import Container, Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("agent", "controller", "shared")
NAMES = ("decide", "report")
FOLDERS = ("placement", "selection")
SAYS_SO = re.compile(r"no input or output|plain functions? of|plain arithmetic|pure functions?", re.IGNORECASE)
FORBIDDEN = frozenset((
    "aiohttp", "asyncio", "concurrent", "fcntl", "http", "httpx", "kubernetes", "logging", "multiprocessing",
    "os", "pathlib", "random", "secrets", "selectors", "shutil", "signal", "socket", "sqlite3", "ssl",
    "structlog", "subprocess", "sys", "tempfile", "threading", "time", "urllib.request",
))  # fmt: skip
_CLOCKS = {("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today"), ("date", "today"), ("uuid", "uuid4")}
# Imports of pure modules that are not followed, each with its reason; an unnecessary one is an error.
EXCEPTIONS: Mapping[tuple[str, str], str] = {
    ("agent.reconciler.list_shares", "agent.store.list_size"): "takes the type of a size, not how it is measured",
    ("agent.store.overhead", "agent.store.snapshot"): "encodes a snapshot's completion mark, to know its size",
    ("agent.store.overhead", "agent.store.tree"): "uses two pure functions on sizes and paths",
    ("controller.cli.support.summary", "controller.cli.status.show"): "writes the table into a string",
}


def is_pure(module: str, head: str) -> bool:
    """Return whether a module claims to be pure, by its name or in its docstring."""
    *folders, name = module.split(".")
    return name in NAMES or any(folder in FOLDERS for folder in (*folders, name)) or bool(SAYS_SO.search(head))


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Return the files of our modules by module name."""
    found = (path for package in PACKAGES for path in sorted((root / package).rglob("*.py")))
    return {".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path for path in found}


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the imports at any depth, except those for type checking."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from imports(node)


@cache
def _imports(path: Path) -> tuple[str, ...]:
    return tuple(imports(_tree(path)))


@cache
def _clock_calls(path: Path) -> tuple[str, ...]:
    """Return the line and name of each call of a clock."""
    names = (node for node in ast.walk(_tree(path)) if isinstance(node, ast.Attribute))
    dotted = ((node.lineno, node.value.id, node.attr) for node in names if isinstance(node.value, ast.Name))
    return tuple(f"{line} calls {owner}.{name}" for line, owner, name in dotted if (owner, name) in _CLOCKS)


def impurities(module: str, ours: Mapping[str, Path], excepted: Container[tuple[str, str]] = ()) -> Iterator[str]:
    """Yield the impurities of a pure module, each with its import path."""
    yield from (f"{module}:{call}" for call in _clock_calls(ours[module]))
    ways: list[tuple[str, ...]] = [(module,)]
    seen = {module}
    while ways:
        way = ways.pop(0)
        for name in _imports(ours[way[-1]]):
            parts = name.split(".")
            if parts[0] in FORBIDDEN or ".".join(parts[:2]) in FORBIDDEN:
                yield f"{' -> '.join(way)} -> {name}"
            target = name if name in ours else name.rpartition(".")[0]
            if target in ours and target not in seen and (way[-1], target) not in excepted:
                seen.add(target)
                ways.append((*way, target))


def problems(root: Path, exceptions: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """Yield all impurities below a root, and all unnecessary exceptions."""
    ours = modules(root)
    pure = [module for module, path in ours.items() if is_pure(module, ast.get_docstring(_tree(path)) or "")]
    for module in pure:
        yield from impurities(module, ours, exceptions)
    for edge in exceptions:
        without = exceptions.keys() - {edge}
        if edge[0] not in ours or not any(_has(impurities(module, ours, without)) for module in pure):
            yield f"the exception for {edge[0]} -> {edge[1]} is no longer needed; remove it from rig/purity.py"


def _has(found: Iterator[str]) -> bool:
    return next(found, None) is not None


def main() -> int:
    """Print all impurities; return 1 if there are any."""
    wrong = sorted(set(problems(ROOT, EXCEPTIONS)))
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
