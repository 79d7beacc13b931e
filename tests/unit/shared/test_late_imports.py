"""Imports inside functions must succeed: otherwise, only a download would reveal a wrong name."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from shared.sources import schemes

ROOT = Path(__file__).parents[3]
_INDENTED = re.compile(r"^[ \t].*\bimport\b", re.MULTILINE)


def late_imports() -> Iterator[tuple[str, str]]:
    """Return module and name of every import inside a function of `agent` or `shared`."""
    for file in sorted(path for package in ("agent", "shared") for path in (ROOT / package).rglob("*.py")):
        text = file.read_text()
        for function in ast.walk(ast.parse(text)) if _INDENTED.search(text) else ():
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _within(function)


def _within(function: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(function):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


FOUND = sorted(set(late_imports()))


def test_late_imports_are_found() -> None:
    assert ("agent.cli.fetch", "run_fetch") in FOUND


@pytest.mark.parametrize(("module", "name"), FOUND)
def test_every_late_import_succeeds(module: str, name: str) -> None:
    if name and not hasattr(import_module(module), name):  # otherwise it is a module of the package
        import_module(f"{module}.{name}")


@pytest.mark.parametrize(("module", "name"), [*schemes._SOURCES.values(), schemes._ARTIFACTS])
def test_every_registered_source_can_be_imported(module: str, name: str) -> None:
    assert callable(getattr(import_module(f"shared.sources.{module}.source"), name))
