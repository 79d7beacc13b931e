"""Tables of any width: nothing is truncated; cells wrap and optional columns are dropped. No input or output."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

_GAP = 2
_LEAST = 16  # wrapped columns are never narrower
_BREAKS = " /-._"


@dataclass(frozen=True, slots=True)
class Column:
    """A column; its cells may wrap, and it may be dropped when space is short, the highest `drop` first."""

    head: str
    folds: bool = False
    drop: int = 0  # 0: never


@dataclass(frozen=True, slots=True)
class TableLayout:
    """The shown columns, by number, with their widths, and which of them wrap."""

    columns: tuple[int, ...]
    widths: tuple[int, ...]
    folding: frozenset[int]

    def lines(self, row: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """Yield the lines of a row, each with one padded cell per shown column.

        A cell wider than those the layout was made for wraps if it may, and otherwise makes its line longer.
        """
        shown = zip(self.columns, self.widths, strict=True)
        folded = [_fold(row[i], width) if i in self.folding else [row[i]] for i, width in shown]
        for line in zip_longest(*folded, fillvalue=""):
            yield tuple(f"{cell:{width}}" for cell, width in zip(line, self.widths, strict=True))


def lay_out(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> TableLayout:
    """Return the layout for lines of `width` characters; 0 means any length.

    Columns are dropped first, then cells wrap. If even that is not enough, lines are longer than `width`.
    """
    cell_widths = [max(len(text) for text in texts) for texts in zip([c.head for c in columns], *rows, strict=True)]
    shown = list(range(len(columns)))
    optional = sorted((i for i in shown if columns[i].drop), key=lambda i: columns[i].drop)
    while width and optional and _total(cell_widths, shown) > width:
        shown.remove(optional.pop())
    for i in shown if width else ():
        if columns[i].folds and (excess := _total(cell_widths, shown) - width) > 0:
            cell_widths[i] = max(min(_LEAST, cell_widths[i]), cell_widths[i] - excess)
    folding = frozenset(i for i in shown if width and columns[i].folds)
    return TableLayout(tuple(shown), tuple(cell_widths[i] for i in shown), folding)


def _total(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[i] for i in shown) + _GAP * (len(shown) - 1)


def _fold(text: str, width: int) -> list[str]:
    """Return the text in pieces of at most `width`, split after a separator if one is in the second half."""
    pieces = []
    while len(text) > width:
        at = 1 + max(text.rfind(mark, width // 2, width) for mark in _BREAKS) or width
        pieces.append(text[:at])
        text = text[at:]
    return [*pieces, text]
