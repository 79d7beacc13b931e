"""Prints reports of models, as a table or in a machine-readable format."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from textwrap import wrap

import msgspec
import yaml
from rich.console import Console
from rich.text import Text

from controller.cli.status.report import ModelReport
from controller.cli.table import Column, TableLayout, lay_out
from controller.models.revisions import short
from shared.exit_codes import printable
from shared.quantity import format_bytes

FORMATS = ("table", "wide", "json", "yaml", "name")
_COLOURS = {"Ready": "green", "Failed": "red", "Downloading": "cyan", "NotReady": "yellow", "Succeeded": "green"}
_MODEL, _STATE, _READY = Column("MODEL", folds=True), Column("STATE"), Column("READY")
_DONE, _SIZE, _REASON = Column("DONE", drop=1), Column("SIZE", drop=2), Column("REASON")
_TABLE = (_MODEL, _STATE, _READY, _DONE, _SIZE, _REASON)
_WIDE = (*_TABLE, Column("REVISION"), Column("NODES"), Column("SOURCE"))
_LONGEST = {
    "MODEL": "m" * 40, "STATE": "Downloading", "READY": "100/100", "DONE": "100%", "SIZE": "1023.9 GiB",
    "REASON": "InsufficientStorage", "REVISION": "r" * 12,
}  # fmt: skip
_NODES = (Column("NODE"), Column("MODEL"), Column("STATE"), Column("DONE"), Column("REASON"))


@dataclass(frozen=True, slots=True)
class View:
    """How to show reports: the format, the line width (0: any), one node or all, and which namespaces were read.

    `grows`: more lines follow the table, so its columns leave room for the longest words.
    """

    output: str = "table"
    width: int = 0
    node: str = ""
    where: str = "any namespace"
    grows: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the table; for a single node there is nothing to count."""
        columns = _WIDE if self.output == "wide" else _TABLE
        return tuple(c for c in columns if not self.node or c.head not in ("READY", "NODES"))

    @property
    def table_width(self) -> int:
        """The maximum width of the table; the wide format omits nothing."""
        return 0 if self.output == "wide" else self.width


@dataclass(slots=True)
class Writer:
    """Prints to a console; the layout is chosen once, so that later lines align with the first."""

    console: Console
    view: View
    _layout: TableLayout | None = field(default=None, init=False)

    def show(self, reports: Sequence[ModelReport]) -> None:
        """Print everything. Raises BrokenPipeError if the reader has closed the pipe."""
        match self.view.output:
            case "json" | "yaml" if self.view.grows:
                for report in reports:
                    self.show_change(report)
            case "json":
                self._write(_json({"models": reports}))
            case "yaml":
                self._write(_yaml({"models": reports}))
            case "name":
                self._write("".join(f"{printable(r.resource)}\n" for r in reports))
            case _:
                self.show_table(reports)
                self._print_notes(reports)

    def show_table(self, reports: Sequence[ModelReport]) -> None:
        """Print only the table."""
        if not reports:
            about = f"no model should be on node {self.view.node}" if self.view.node else "no models are declared"
            self.console.print(f"{about}, in {self.view.where} or cluster-wide")
            return
        rows = [self._cells(r) for r in reports]
        room = [tuple(_LONGEST.get(c.head, "") for c in self.view.columns)] if self.view.grows else []
        self._layout = lay_out(self.view.columns, [*rows, *room], self.view.table_width)
        self._print_row(self._layout, [c.head for c in self.view.columns], head=True)
        for row in rows:
            self._print_row(self._layout, row)

    def show_change(self, report: ModelReport) -> None:
        """Print a changed model as one line. Raises BrokenPipeError if the reader has closed the pipe."""
        match self.view.output:
            case "json":
                self._write(msgspec.json.encode(report).decode() + "\n")
            case "yaml":
                self._write(f"---\n{_yaml(report)}")
            case "name":
                self._write(f"{printable(report.resource)}\n")
            case _ if self._layout is None:
                self.show_table([report])
            case _:
                self._print_row(self._layout, self._cells(report))

    def shown(self, report: ModelReport) -> tuple[str, ...]:
        """Return what a user would see of a model, to detect visible changes."""
        if self.view.output in ("table", "wide"):
            return self._cells(report)
        return (report.resource,) if self.view.output == "name" else (_json(report),)

    def _print_notes(self, reports: Sequence[ModelReport]) -> None:
        """Print one line for everything that may need action, then what was omitted, then the nodes."""
        for line in (t for r in reports for t in r.problems):
            self._print_text(line, "yellow")
        for line in (n for r in reports for n in r.notes):
            self._print_text(line, "")
        if self.view.output == "wide" and not self.view.node:
            self._show_nodes(reports)

    def _show_nodes(self, reports: Sequence[ModelReport]) -> None:
        rows = sorted((n.name, r.model, n.phase, f"{n.percent}%", n.reason) for r in reports for n in r.nodes)
        if not rows:
            return
        layout = lay_out(_NODES, rows, 0)
        self.console.print()
        self._print_row(layout, [c.head for c in _NODES], head=True)
        for row in rows:
            self._print_row(layout, row)
        for r in reports:
            if r.total > len(r.nodes):
                self._print_text(f"{r.model}: its status lists {len(r.nodes)} of {r.total} nodes", "")

    def _cells(self, report: ModelReport) -> tuple[str, ...]:
        cells = {
            "MODEL": report.model,
            "STATE": report.state,
            "READY": f"{report.ready}/{report.total}",
            "DONE": "" if report.percent is None else f"{report.percent}%",
            "SIZE": format_bytes(report.size) if report.size else "",
            "REASON": report.reason,
            "REVISION": short(report.revision),
            "NODES": ", ".join(f"{count} {phase}" for phase, count in Counter(n.phase for n in report.nodes).items()),
            "SOURCE": report.source,
        }
        return tuple(printable(cells[column.head]) for column in self.view.columns)

    def _print_row(self, layout: TableLayout, row: Sequence[str], *, head: bool = False) -> None:
        for line in layout.lines(row):
            text = Text("  ").join(_styled(line, head=head))
            text.rstrip()
            self.console.print(text)

    def _print_text(self, line: str, style: str) -> None:
        """Print a line of text, wrapped between words if lines have a width."""
        for piece in _wrapped(printable(line), self.view.width):
            self.console.print(Text(piece, style=style))

    def _write(self, text: str) -> None:
        self.console.file.write(text)
        self.console.file.flush()


def _wrapped(line: str, width: int) -> list[str]:
    if not width:
        return [line]
    return wrap(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _styled(line: Sequence[str], *, head: bool) -> Iterator[Text]:
    for cell in line:
        yield Text(cell, style="bold" if head else _COLOURS.get(cell.strip(), ""))


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode() + "\n"


def _yaml(value: object) -> str:
    text: str = yaml.safe_dump(msgspec.to_builtins(value), sort_keys=False, allow_unicode=True)
    return text
