"""A matcher that takes `re`'s parsed patterns, backtracks as `re` does, and counts its steps.

Time tells little on a busy machine; steps are the same on each. The spans that it finds are compared with those of
`re` itself, so that what is counted is what `re` does.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

# The parser is private to `re`, and the only one that reads every pattern as `re` does.
from re import _constants as codes  # type: ignore[attr-defined]  # isort: skip
from re import _parser as parser  # type: ignore[attr-defined]  # isort: skip

Node = tuple[Any, Any]
Goal = Callable[[int], int | None]
_SINGLE = (codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY)
_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    codes.CATEGORY_DIGIT: str.isdigit,
    codes.CATEGORY_NOT_DIGIT: lambda c: not c.isdigit(),
    codes.CATEGORY_SPACE: str.isspace,
    codes.CATEGORY_NOT_SPACE: lambda c: not c.isspace(),
    codes.CATEGORY_WORD: lambda c: c.isalnum() or c == "_",
    codes.CATEGORY_NOT_WORD: lambda c: not (c.isalnum() or c == "_"),
}
_DEEPEST = 100_000  # the matcher calls itself once for each character that a repeat has taken


class TooManyStepsError(Exception):
    """There is no need to count on."""


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Let the matcher recurse within a block, and nobody after it: a C parser would overflow the stack there."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(_DEEPEST)
    try:
        yield
    finally:
        sys.setrecursionlimit(usual)


def parse(pattern: re.Pattern[Any]) -> list[Node]:
    """Return a pattern's nodes."""
    nodes: list[Node] = _plain(parser.parse(pattern.pattern, pattern.flags))
    return nodes


def _plain(value: Any) -> Any:
    """Return nodes in lists, which are far quicker to read than the parser's own; a look around keeps its width."""
    if isinstance(value, parser.SubPattern):
        return [_plain(node) for node in value]
    if isinstance(value, tuple) and any(value[0] is kind for kind in (codes.ASSERT, codes.ASSERT_NOT)):
        kind, (direction, inner) = value
        return kind, (direction, _plain(inner), inner.getwidth()[0])
    return type(value)(map(_plain, value)) if isinstance(value, tuple | list) else value


def fits(node: Node, character: str, flags: int) -> bool:
    """Return whether a node of one character takes this one."""
    kind, value = node
    cases = (character, character.lower(), character.upper()) if flags & re.IGNORECASE else (character,)
    folded = {ord(case) for case in cases}
    if kind is codes.ANY:
        return character != "\n" or bool(flags & re.DOTALL)
    if kind is codes.LITERAL:
        return value in folded
    if kind is codes.NOT_LITERAL:
        return value not in folded
    negated = value[0][0] is codes.NEGATE
    return negated != any(_in(item, folded, character) for item in value)


def _in(item: Node, folded: set[int], character: str) -> bool:
    kind, value = item
    if kind is codes.LITERAL:
        return value in folded
    if kind is codes.RANGE:
        return any(value[0] <= code <= value[1] for code in folded)
    return kind is codes.CATEGORY and _CATEGORIES[value](character)


@dataclass(slots=True)
class Counter:
    """Matches one pattern against one text. Raises TooManyStepsError beyond `most` steps.

    `known`, by node and character, is what other counters of the same nodes found out.
    """

    pattern: re.Pattern[Any]
    nodes: Sequence[Node]
    text: str
    most: int
    known: dict[tuple[int, str], bool] = field(default_factory=dict)
    steps: int = 0
    _groups: dict[int, str] = field(default_factory=dict)

    def spans(self, method: str) -> Iterator[tuple[int, int]]:
        """Yield the spans that a method of the pattern finds, in order."""
        if method in ("match", "fullmatch"):
            if (end := self._at(0, whole=method == "fullmatch")) is not None:
                yield 0, end
            return
        start, after = 0, -1  # `after` an empty match there may be another, but no empty one
        while start <= len(self.text):
            end = self._at(start, filled=after == start)
            if end is None:
                start += 1
                continue
            yield start, end
            if method == "search":
                return
            start = after = end

    def _at(self, start: int, *, whole: bool = False, filled: bool = False) -> int | None:
        def goal(position: int) -> int | None:
            wrong = (whole and position < len(self.text)) or (filled and position == start)
            return None if wrong else position

        return self._sequence(self.nodes, 0, start, goal)

    def _count(self) -> None:
        self.steps += 1
        if self.steps > self.most:
            raise TooManyStepsError

    def _sequence(self, nodes: Sequence[Node], index: int, position: int, goal: Goal) -> int | None:
        while True:
            self._count()
            if index == len(nodes):
                return goal(position)
            kind, value = nodes[index]
            if kind not in _SINGLE:
                break
            if not self._is_next(nodes[index], position):
                return None
            index, position = index + 1, position + 1

        def then(end: int) -> int | None:
            return self._sequence(nodes, index + 1, end, goal)

        if kind in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            return self._repeat(kind, value, position, then)
        return self._other(kind, value, position, then)

    def _is_next(self, node: Node, position: int) -> bool:
        if position >= len(self.text):
            return False
        key = id(node), self.text[position]
        if key not in self.known:
            self.known[key] = fits(node, self.text[position], self.pattern.flags)
        return self.known[key]

    def _repeat(self, kind: Any, value: Any, position: int, then: Goal) -> int | None:
        least, most, inner = value
        if kind is codes.POSSESSIVE_REPEAT:
            return self._possessive(least, most, inner, position, then)
        if len(inner) == 1 and inner[0][0] in _SINGLE:
            return self._repeat_one(kind, (least, most), inner[0], position, then)

        def again(count: int, at: int) -> int | None:
            def one_more() -> int | None:
                if count >= most:
                    return None
                return self._sequence(inner, 0, at, lambda end: again(count + 1, end) if end > at else None)

            ways: list[Callable[[], int | None]] = [one_more, lambda: then(at) if count >= least else None]
            for way in ways if kind is codes.MAX_REPEAT else ways[::-1]:
                if (end := way()) is not None:
                    return end
            return None

        return again(0, position)

    def _repeat_one(self, kind: Any, bounds: tuple[int, int], node: Node, position: int, then: Goal) -> int | None:
        least, most = bounds
        limit = position
        if kind is codes.MAX_REPEAT:
            while limit - position < most and self._is_next(node, limit):
                self._count()
                limit += 1
            tries = range(limit, position + least - 1, -1)
            return next((end for at in tries if (end := then(at)) is not None), None)
        while limit - position <= most:
            if limit - position >= least and (end := then(limit)) is not None:
                return end
            self._count()
            if not self._is_next(node, limit):
                return None
            limit += 1
        return None

    def _possessive(self, least: int, most: int, inner: list[Node], position: int, then: Goal) -> int | None:
        count = 0
        while count < most:
            end = self._sequence(inner, 0, position, lambda at: at)
            if end is None or end == position:
                break
            count, position = count + 1, end
        return then(position) if count >= least else None

    def _other(self, kind: Any, value: Any, position: int, then: Goal) -> int | None:
        if kind is codes.BRANCH:
            ends = (self._sequence(way, 0, position, then) for way in value[1])
            return next((end for end in ends if end is not None), None)
        if kind is codes.SUBPATTERN:
            return self._group(value, position, then)
        if kind is codes.ATOMIC_GROUP:
            end = self._sequence(value, 0, position, lambda at: at)
            return None if end is None else then(end)
        if kind in (codes.ASSERT, codes.ASSERT_NOT):
            return then(position) if self._looks(value, position) == (kind is codes.ASSERT) else None
        if kind is codes.AT:
            return then(position) if self._is_at(value, position) else None
        if kind is codes.GROUPREF:
            said = self._groups.get(value, "\0never")
            return then(position + len(said)) if self.text.startswith(said, position) else None
        raise NotImplementedError(f"teach this matcher what {kind} means")

    def _group(self, value: Any, position: int, then: Goal) -> int | None:
        number, _, _, inner = value

        def close(end: int) -> int | None:
            before = self._groups.get(number)
            self._groups[number] = self.text[position:end]
            found = then(end)
            if found is None and before is not None:
                self._groups[number] = before
            return found

        return self._sequence(inner, 0, position, close if number is not None else then)

    def _looks(self, value: Any, position: int) -> bool:
        direction, inner, width = value  # of what stands behind, `re` allows one width alone
        start = position if direction > 0 else position - width
        return start >= 0 and self._sequence(inner, 0, start, lambda at: at) is not None

    def _is_at(self, place: Any, position: int) -> bool:
        before = self.text[position - 1 : position] if position else ""
        after, lines = self.text[position : position + 1], bool(self.pattern.flags & re.MULTILINE)
        if place in (codes.AT_BEGINNING, codes.AT_BEGINNING_STRING):
            return not before or (lines and place is codes.AT_BEGINNING and before == "\n")
        if place is codes.AT_END:
            return not after or (after == "\n" and (lines or position == len(self.text) - 1))
        if place is codes.AT_END_STRING:
            return not after
        word = _CATEGORIES[codes.CATEGORY_WORD]
        return (place is codes.AT_BOUNDARY) == (bool(before and word(before)) != bool(after and word(after)))
