"""Every pattern takes linear time, because almost all of them match untrusted input."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import translate
from typing import Any

import pytest

from tests.unit.patterns.attack import attacks, decoded
from tests.unit.patterns.collect import Use, sources, uses
from tests.unit.patterns.steps import Matcher, TooManyStepsError, deep_recursion, parse

_SMALL, _LARGE = 32, 600
_MANY_STEPS, _MAX_STEPS = 20_000, 50_000  # for a small text, and for a large one, which decides: some take 16,000
_FACTOR, _FLOOR = 2.6, 300  # twice the input may take twice the steps, and a few more
USES = list(uses())
_THROUGH = {use.pattern for use in USES if use.method in ("finditer", "findall", "sub")}  # `search` only ends sooner


@pytest.fixture(autouse=True)
def _deep_recursion() -> Iterator[None]:
    with deep_recursion():
        yield


@dataclass(frozen=True)
class Steps:
    """Counts the steps of one pattern by one method, which finds what `re` finds."""

    pattern: re.Pattern[Any]
    matcher: Matcher
    method: str

    def of(self, text: str, most: int) -> int:
        """Return the steps for one text; raises TooManyStepsError beyond `most`."""
        spans = list(self.matcher.spans(text, self.method, most))
        if len(text) < 4 * _SMALL:
            assert spans == _spans_of_re(self.pattern, text, self.method), f"{self.pattern.pattern!r} on {text!r}"
        return self.matcher.steps


def _spans_of_re(pattern: re.Pattern[Any], text: str, method: str) -> list[tuple[int, int]]:
    text_of = decoded(pattern, text)
    if method in ("match", "fullmatch", "search"):
        found = getattr(pattern, method)(text_of)
        return [found.span()] if found else []
    return [found.span() for found in pattern.finditer(text_of)]


def slow_text(pattern: re.Pattern[Any], method: str) -> str:
    """Return the form of a text that takes more than twice the steps when it is twice as long, or ""."""
    nodes = parse(pattern)
    steps = Steps(pattern, Matcher(pattern, nodes), method)

    def grows(size: int, parts: tuple[str, str, str], most: int) -> bool:
        before, pump, after = parts
        try:
            twice = steps.of(before + pump * 2 * size + after, int(_FACTOR * most + _FLOOR))
            if twice <= _FLOOR:
                return False
            once = steps.of(before + pump * size + after, most)
        except TooManyStepsError:
            return True
        return twice > _FACTOR * once + _FLOOR

    for parts in attacks(nodes, pattern.flags):
        if grows(_SMALL, parts, _MANY_STEPS) and grows(_LARGE, parts, _MAX_STEPS):  # a bound ends fast growth
            return "{!r} + {!r} * n + {!r}".format(*parts)
    return ""


@pytest.mark.parametrize("use", [use for use in USES if use.method != "search" or use.pattern not in _THROUGH], ids=str)
def test_a_pattern_is_linear(use: Use) -> None:
    assert not slow_text(use.pattern, use.method), f"{use.pattern.pattern!r} by {use.method}"


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (rb'(?s)"(?:[^"\\]+|\\.)*+"|[\[\]{},:]', "finditer"),
        (r'([A-Za-z]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))', "finditer"),
        (r"(?:norm\w*\.scale|logit_scale)$", "search"),
        (r"(a+)+b", "match"),
        (r"a+b", "search"),
        (r"\d+\d+x", "fullmatch"),
        (r"(?i)\s*x\s*=", "search"),
        (r"(.*?,){3}y", "match"),
    ],
)
def test_a_pattern_that_backtracks_is_found(pattern: str | bytes, method: str) -> None:
    assert slow_text(re.compile(pattern), method)


def test_the_search_finds_patterns_in_known_modules() -> None:
    found = {(use.module, use.method) for use in USES}
    assert {
        ("shared.metadata.json_text", "finditer"),
        ("shared.metadata.formats.tensors", "search"),
        ("shared.sources.registry.challenges", "findall"),
        ("shared.api.meta", "search"),
        ("controller.cli.support.redact", "sub"),
        ("controller.admission.rules.annotations", "fullmatch"),
    } <= found
    assert len(USES) > 80


@pytest.mark.parametrize("pattern", ["*a*a*a*b", "*" * 20 + "x", "*?a*?a*[ab]", "[a-b]*[b-c]*d", "*.bin"])
def test_a_user_s_pattern_is_linear_in_the_name(pattern: str) -> None:
    assert not slow_text(re.compile(translate(pattern)), "match")


def test_only_one_module_compiles_patterns_from_user_input() -> None:
    mention = {name: text for name, text in sources().items() if "fnmatch" in text}
    assert [name for name, text in mention.items() if any("fnmatch" in n for n in _imported(ast.parse(text)))] == [
        "shared.selection.select"
    ]


def _imported(tree: Any) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names
