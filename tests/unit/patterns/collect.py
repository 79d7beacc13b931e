"""Every pattern of the three packages and the methods that use it, found in the source so that none is missed."""

import ast
import importlib
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
PACKAGES = ("agent", "controller", "shared")
_MENTIONS_A_PATTERN = re.compile(r"\.(?:match|fullmatch|search|finditer|findall|subn?|split|compile)\b|\bpattern=")
METHODS = frozenset({"match", "fullmatch", "search", "finditer", "findall", "sub", "subn", "split"})


@dataclass(frozen=True, slots=True)
class Use:
    """The use of a pattern by one of its methods."""

    module: str
    line: int
    pattern: re.Pattern[Any]
    method: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}.{self.method}"


@cache
def sources() -> dict[str, str]:
    """Return the text of the modules by name."""
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return {_module(path): path.read_text() for path in paths}


@cache
def _nodes() -> dict[str, list[ast.AST]]:
    """Return the nodes of each module that may use a pattern."""
    kinds = (ast.Assign, ast.Attribute, ast.Call)
    trees = {name: ast.parse(text) for name, text in sources().items() if _MENTIONS_A_PATTERN.search(text)}
    return {name: [node for node in ast.walk(tree) if isinstance(node, kinds)] for name, tree in trees.items()}


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def uses() -> Iterator[Use]:
    """Yield each pattern once per method."""
    for module, nodes in _nodes().items():
        targets = _targets(nodes)
        for call in _calls(nodes):
            for method in sorted(_methods_of(call, module, targets)):
                yield Use(module, call.lineno, _evaluate(module, call), method)
        for keyword in _pattern_keywords(nodes):
            compiled = re.compile(_value(module, keyword.value))
            yield Use(module, keyword.value.lineno, compiled, "search")  # msgspec and pydantic use this method


def _calls(nodes: list[ast.AST]) -> Iterator[ast.Call]:
    """Yield calls of `re`'s functions that take a pattern."""
    for node in nodes:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=attr)) if attr in {*METHODS, "compile"}:
                yield node


def _pattern_keywords(nodes: list[ast.AST]) -> Iterator[ast.keyword]:
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Meta", "Field"):
            yield from (keyword for keyword in node.keywords if keyword.arg == "pattern")


def _targets(nodes: list[ast.AST]) -> dict[int, str]:
    """Return the names of compiled patterns by the line of the call."""
    found = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                found[call.lineno] = name
    return found


def _methods_of(call: ast.Call, module: str, targets: dict[int, str]) -> set[str]:
    """Return the methods that use a pattern; for a pattern without a name, all methods that its module uses."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr != "compile":
        return {call.func.attr}
    name = targets.get(call.lineno, "")
    found = _used()["" if name and not name.startswith("_") else module, name]
    assert found, f"nothing uses the pattern of line {call.lineno} of {module}"
    return found


@cache
def _used() -> dict[tuple[str, str], set[str]]:
    """Return the methods that a module uses on a name; the name "" is anything that may be a pattern."""
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for module, nodes in _nodes().items():
        for node in nodes:
            match node:
                case ast.Attribute(value=ast.Name(id=name), attr=attr) if attr in METHODS and name != "re":
                    found[module, name].add(attr)
                    found["", name].add(attr)
                    if attr != "split":
                        found[module, ""].add(attr)
    return found


def _evaluate(module: str, call: ast.Call) -> re.Pattern[Any]:
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr == "compile":
        compiled = _value(module, call)
    else:
        flags = [ast.Constant(0), *(arg for arg in call.args[1:] if ast.unparse(arg).startswith("re."))]
        compiled = re.compile(_value(module, call.args[0]), _value(module, flags[-1]))
    assert isinstance(compiled, re.Pattern)
    return compiled


def _value(module: str, node: ast.expr) -> Any:
    """Return the value of an expression at module level; patterns must not depend on names of a function."""
    code = compile(ast.fix_missing_locations(ast.Expression(node)), module, "eval")
    return eval(code, vars(importlib.import_module(module)))  # noqa: S307 - our own source
