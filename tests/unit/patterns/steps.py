"""A matcher that takes `re`'s parsed patterns, backtracks as `re` does, and counts its steps.

Time tells little on a busy machine; steps are the same on each. The spans that it finds are compared with those of
`re` itself, so that what is counted is what `re` does.
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

# The parser is private to `re`, and the only one that reads every pattern as `re` does.
from re import _constants as codes  # type: ignore[attr-defined]  # isort: skip
from re import _parser as parser  # type: ignore[attr-defined]  # isort: skip

Node = tuple[Any, Any]
Goal = Callable[[int], int | None]
Match = Callable[[int, Goal], int | None]
_SINGLE = (codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY)
_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    codes.CATEGORY_DIGIT: str.isdigit,
    codes.CATEGORY_NOT_DIGIT: lambda c: not c.isdigit(),
    codes.CATEGORY_SPACE: str.isspace,
    codes.CATEGORY_NOT_SPACE: lambda c: not c.isspace(),
    codes.CATEGORY_WORD: lambda c: c.isalnum() or c == "_",
    codes.CATEGORY_NOT_WORD: lambda c: not (c.isalnum() or c == "_"),
}
_MULTILINE, _DOTALL, _IGNORECASE = int(re.MULTILINE), int(re.DOTALL), int(re.IGNORECASE)  # flags are slow to combine
_DEEPEST = 100_000  # the matcher calls itself once for each character that a repeat has taken


class TooManyStepsError(Exception):
    """The pattern has exceeded the number of steps."""


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Raise the recursion limit within a block only: with it, a parser in C could overflow the stack."""
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
    """Return whether a node of one character matches this one."""
    kind, value = node
    cases = (character, character.lower(), character.upper()) if flags & _IGNORECASE else (character,)
    folded = {ord(case) for case in cases}
    if kind is codes.ANY:
        return character != "\n" or bool(flags & _DOTALL)
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


class _Takes(dict[str, bool]):
    """Which characters a node of one character matches; it never matches the end of the text, which is ""."""

    def __init__(self, node: Node, flags: int) -> None:
        super().__init__({"": False})
        self._node, self._flags = node, flags

    def __missing__(self, character: str) -> bool:
        self[character] = fits(self._node, character, self._flags)
        return self[character]


class Matcher:
    """Matches one pattern against one text after another. Raises TooManyStepsError beyond `most` steps.

    The nodes are made into functions once, since a pattern meets hundreds of texts.
    """

    def __init__(self, pattern: re.Pattern[Any], nodes: Sequence[Node]) -> None:
        self.steps = 0
        self._flags = pattern.flags
        self._most = 0
        self._text = ""
        self._characters = [""]
        self._groups: dict[int, str] = {}
        self._first = _Takes(nodes[0], self._flags) if nodes[0][0] in _SINGLE else None
        self._whole = self._sequence(nodes)

    def spans(self, text: str, method: str, most: int) -> Iterator[tuple[int, int]]:
        """Yield the spans that a method of the pattern finds, in order."""
        self._text, self._characters, self._most = text, [*text, ""], most
        self.steps = 0
        self._groups = {}
        if method in ("match", "fullmatch"):
            if (end := self._at(0, whole=method == "fullmatch")) is not None:
                yield 0, end
            return
        start, after = 0, -1  # `after` an empty match there may be another, but no empty one
        while (start := self._next_start(start)) <= len(text):
            end = self._at(start, filled=after == start)
            if end is None:
                start += 1
                continue
            yield start, end
            if method == "search":
                return
            start = after = end

    def _next_start(self, start: int) -> int:
        """Return the next position where the first node of the pattern matches; beyond the text if there is none."""
        if (takes := self._first) is None:
            return start
        before, length, characters = start, len(self._text), self._characters
        while start <= length and not takes[characters[start]]:
            start += 1
        self._count(start - before)
        return start

    def _at(self, start: int, *, whole: bool = False, filled: bool = False) -> int | None:
        if not whole and not filled:
            return self._whole(start, _accept)

        def goal(position: int) -> int | None:
            wrong = (whole and position < len(self._text)) or (filled and position == start)
            return None if wrong else position

        return self._whole(start, goal)

    def _count(self, steps: int = 1) -> None:
        self.steps += steps
        if self.steps > self._most:
            raise TooManyStepsError

    def _sequence(self, nodes: Sequence[Node]) -> Match:
        length = next((index for index, node in enumerate(nodes) if node[0] not in _SINGLE), len(nodes))
        singles = [_Takes(node, self._flags) for node in nodes[:length]]

        def of_singles(position: int, goal: Goal) -> int | None:
            characters = self._characters
            for done, takes in enumerate(singles, start=1):
                if not takes[characters[position]]:
                    self._count(done)
                    return None
                position += 1
            self.steps = steps = self.steps + length + 1
            if steps > self._most:
                raise TooManyStepsError
            return goal(position)

        if length == len(nodes):
            return of_singles
        node, rest = self._node(nodes[length]), self._sequence(nodes[length + 1 :])
        if singles:
            return lambda position, goal: of_singles(position, lambda end: node(end, lambda at: rest(at, goal)))

        def of_node(position: int, goal: Goal) -> int | None:
            self.steps = steps = self.steps + 1
            if steps > self._most:
                raise TooManyStepsError
            return node(position, lambda at: rest(at, goal))

        return of_node

    def _node(self, node: Node) -> Match:
        kind, value = node
        if kind in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            return self._repeat(kind, value)
        if kind is codes.BRANCH:
            return self._branch(value[1])
        if kind is codes.SUBPATTERN:
            return self._group(value)
        if kind is codes.ATOMIC_GROUP:
            inner = self._sequence(value)
            return lambda position, then: None if (end := inner(position, _accept)) is None else then(end)
        if kind in (codes.ASSERT, codes.ASSERT_NOT):
            looks = self._look(value)
            return lambda position, then: then(position) if looks(position) == (kind is codes.ASSERT) else None
        if kind is codes.AT:
            return lambda position, then: then(position) if self._is_at(value, position) else None
        if kind is codes.GROUPREF:
            return self._reference(value)
        raise NotImplementedError(f"teach this matcher what {kind} means")

    def _repeat(self, kind: Any, value: Any) -> Match:
        least, most, nodes = value
        if kind is codes.POSSESSIVE_REPEAT:
            return self._possessive(least, most, self._sequence(nodes))
        if len(nodes) == 1 and nodes[0][0] in _SINGLE:
            takes = _Takes(nodes[0], self._flags)
            return (
                self._greedy_one(least, most, takes) if kind is codes.MAX_REPEAT else self._lazy_one(least, most, takes)
            )
        return self._repeat_many(least, most, self._sequence(nodes), greedy=kind is codes.MAX_REPEAT)

    def _repeat_many(self, least: int, most: int, inner: Match, *, greedy: bool) -> Match:
        def again(count: int, at: int, then: Goal) -> int | None:
            def one_more() -> int | None:
                if count >= most:
                    return None
                return inner(at, lambda end: again(count + 1, end, then) if end > at else None)

            if greedy and (end := one_more()) is not None:
                return end
            if count >= least and (end := then(at)) is not None:
                return end
            return None if greedy else one_more()

        return lambda position, then: again(0, position, then)

    def _greedy_one(self, least: int, most: int, takes: _Takes) -> Match:
        def match(position: int, then: Goal) -> int | None:
            characters, limit = self._characters, position
            while limit - position < most and takes[characters[limit]]:
                limit += 1
            self._count(limit - position)
            for at in range(limit, position + least - 1, -1):
                if (end := then(at)) is not None:
                    return end
            return None

        return match

    def _lazy_one(self, least: int, most: int, takes: _Takes) -> Match:
        def match(position: int, then: Goal) -> int | None:
            limit = position
            while limit - position <= most:
                if limit - position >= least and (end := then(limit)) is not None:
                    return end
                self._count()
                if not takes[self._characters[limit]]:
                    return None
                limit += 1
            return None

        return match

    def _possessive(self, least: int, most: int, inner: Match) -> Match:
        def match(position: int, then: Goal) -> int | None:
            count = 0
            while count < most:
                end = inner(position, _accept)
                if end is None or end == position:
                    break
                count, position = count + 1, end
            return then(position) if count >= least else None

        return match

    def _branch(self, branches: Sequence[Sequence[Node]]) -> Match:
        starts = [_Takes(way[0], self._flags) if way and way[0][0] in _SINGLE else None for way in branches]
        ways = list(zip(starts, map(self._sequence, branches), strict=True))

        def match(position: int, then: Goal) -> int | None:
            character = self._characters[position]
            for start, way in ways:
                if start is not None and not start[character]:
                    self._count()
                elif (end := way(position, then)) is not None:
                    return end
            return None

        return match

    def _group(self, value: Any) -> Match:
        number, _, _, nodes = value
        inner = self._sequence(nodes)
        if number is None:
            return inner

        def match(position: int, then: Goal) -> int | None:
            def close(end: int) -> int | None:
                before = self._groups.get(number)
                self._groups[number] = self._text[position:end]
                found = then(end)
                if found is None and before is not None:
                    self._groups[number] = before
                return found

            return inner(position, close)

        return match

    def _reference(self, number: int) -> Match:
        def match(position: int, then: Goal) -> int | None:
            matched = self._groups.get(number, "\0never")
            return then(position + len(matched)) if self._text.startswith(matched, position) else None

        return match

    def _look(self, value: Any) -> Callable[[int], bool]:
        direction, nodes, width = value  # in a look-behind, `re` allows only one width
        inner, back = self._sequence(nodes), 0 if direction > 0 else width
        return lambda position: position >= back and inner(position - back, _accept) is not None

    def _is_at(self, place: Any, position: int) -> bool:
        before = self._text[position - 1 : position] if position else ""
        after, lines = self._text[position : position + 1], bool(self._flags & _MULTILINE)
        if place in (codes.AT_BEGINNING, codes.AT_BEGINNING_STRING):
            return not before or (lines and place is codes.AT_BEGINNING and before == "\n")
        if place is codes.AT_END:
            return not after or (after == "\n" and (lines or position == len(self._text) - 1))
        if place is codes.AT_END_STRING:
            return not after
        word = _CATEGORIES[codes.CATEGORY_WORD]
        return (place is codes.AT_BOUNDARY) == (bool(before and word(before)) != bool(after and word(after)))


def _accept(position: int) -> int | None:
    return position
