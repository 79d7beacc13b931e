"""Texts that a pattern may be slow on, built from its own characters, words and repeats."""

import re
from collections.abc import Iterator, Sequence
from itertools import permutations, product
from typing import Any

from re import _constants as codes  # type: ignore[attr-defined]  # isort: skip

from tests.unit.patterns.steps import Node, fits

_PREFERRED = "a0 \"\\-._/:=,<>'A@\n\t!~\0"
_MAX_CHARACTERS, _MAX_PIECES, _MAX_PREFIXES = 7, 8, 4
_ENDS = ("", "\0")


def attacks(nodes: Sequence[Node], flags: int) -> Iterator[tuple[str, str, str]]:
    """Yield a prefix, a part to repeat, and an end."""
    characters = _characters(nodes, flags)
    pieces = list(dict.fromkeys([*_samples(nodes, flags), *_words(nodes)]))[:_MAX_PIECES]
    pumps = [*characters, *("".join(pair) for pair in permutations(characters, 2)), *pieces]
    pumps += [f"{piece}{character}" for piece, character in product(pieces, characters[:3])]
    prefixes = list(dict.fromkeys(["", *_prefixes(nodes, flags), *characters[:2]]))[:_MAX_PREFIXES]
    yield from product(prefixes, dict.fromkeys(pumps), _ENDS)


def _inner(node: Node) -> list[list[Node]]:
    """Return the sequences inside a node."""
    kind, value = node
    if kind in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        return [list(value[2])]
    if kind is codes.SUBPATTERN:
        return [list(value[3])]
    if kind is codes.BRANCH:
        return [list(way) for way in value[1]]
    if kind in (codes.ASSERT, codes.ASSERT_NOT):
        return [list(value[1])]
    return [list(value)] if kind is codes.ATOMIC_GROUP else []


def _singles(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        if node[0] in (codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY):
            yield node
        for inner in _inner(node):
            yield from _singles(inner)


def _characters(nodes: Sequence[Node], flags: int) -> list[str]:
    """Return a few characters that the pattern distinguishes, beginning with those that it names."""
    singles = list(_singles(nodes))
    named = [chr(value) for kind, value in singles if kind in (codes.LITERAL, codes.NOT_LITERAL) and value < 128]
    listed = [chr(v) for kind, items in singles if kind is codes.IN for k, v in items if k is codes.LITERAL and v < 128]
    classes = [_one(node, flags) for node in singles if node[0] is not codes.LITERAL]
    marks = [c for c in (*named, *listed) if not c.isalnum()]
    return list(dict.fromkeys([*marks[:5], *classes, *marks, *named]))[:_MAX_CHARACTERS]


def _one(node: Node, flags: int) -> str:
    if node[0] is codes.LITERAL:
        return chr(node[1])
    found: str = next(c for c in (*_PREFERRED, *map(chr, range(256)), "\u2603") if fits(node, c, flags))
    return found


def _words(nodes: Sequence[Node]) -> Iterator[str]:
    """Yield the runs of literal letters in the pattern."""
    run = ""
    for node in (*nodes, (None, None)):
        if node[0] is codes.LITERAL and node[1] < 128:
            run += chr(node[1])
            continue
        if len(run) > 1:
            yield run
        run = ""
        for inner in _inner(node):
            yield from _words(inner)


def _shortest(nodes: Sequence[Node], flags: int) -> str:
    """Return a short text that matches, as far as that is known without a search."""
    return "".join(_of_node(node, flags) for node in nodes)


def _of_node(node: Node, flags: int) -> str:
    kind, value = node
    if kind in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        least: int = value[0]
        return _shortest(list(value[2]), flags) * max(1, min(least, 64))
    if kind in (codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY):
        return _one(node, flags)
    if kind in (codes.ASSERT, codes.ASSERT_NOT):
        return ""
    inner: list[list[Any]] = _inner(node)
    return _shortest(inner[0], flags) if inner else ""


def _samples(nodes: Sequence[Node], flags: int) -> Iterator[str]:
    """Yield a text for the whole pattern, and for each alternative of its groups and repeats."""
    if text := _shortest(nodes, flags):
        yield text
    for node in nodes:
        for inner in _inner(node):
            yield from _samples(inner, flags)


def _prefixes(nodes: Sequence[Node], flags: int) -> Iterator[str]:
    """Yield a text that matches up to each repeat."""
    for index, node in enumerate(nodes):
        before = _shortest(nodes[:index], flags)
        if before and node[0] not in (codes.LITERAL, codes.AT):
            yield before
        for inner in _inner(node):
            yield from (before + rest for rest in _prefixes(inner, flags))


def decoded(pattern: re.Pattern[Any], text: str) -> Any:
    """Return a text in the type of the pattern: str or bytes."""
    return text.encode("latin-1") if isinstance(pattern.pattern, bytes) else text
