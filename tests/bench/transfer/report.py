"""The report: Markdown sections and pictures, in one directory or in their places in docs/."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.transfer import chart
from tests.bench.transfer.figures import Row
from tests.bench.transfer.loads import Load
from tests.bench.transfer.rounds import Result

_HEAD = (
    "| | from | verifies | wall s (min to max) | GB/s | CPU-s/GB | peak MB | wall, floor = 1 | CPU, floor = 1 "
    "| wall, ours = 1 |\n|---|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class Section:
    """One part of the report: `name` marks its place in a page, `pictures` are SVG by file name."""

    name: str
    text: str
    pictures: Mapping[str, str] = field(default_factory=dict)


def table(rows: Sequence[Row]) -> str:
    """Return the rows as Markdown, with Larder's in bold."""
    return "\n".join([_HEAD, *(_line(row) for row in rows)])


def troubles(results: Sequence[Result], left_out: Mapping[str, str]) -> str:
    """Return the contenders without figures, each with its reason; empty if there are none."""
    found = {result.contender.name: result.failure for result in results if result.failure} | dict(left_out)
    return "\n".join(f"- no figures: {name}: {reason}" for name, reason in found.items())


def picture(load: Load, rows: Sequence[Row], title: str) -> str:
    """Return the rows as bars of wall seconds."""
    entries = [(r.name, r.wall_s, f"{r.wall_s:.2f} s, {r.cpu_s_per_gb:.2f} CPU-s/GB", r.role) for r in rows]
    return chart.bars(f"{load.spelled}, {title}: wall seconds", entries)


def write(sections: Sequence[Section], page: Path) -> None:
    """Put each section between its marks in the page, or at the end if it has none, and its pictures beside it."""
    text = page.read_text(encoding="utf-8") if page.exists() else "# Benchmarks\n"
    for section in sections:
        begin, end = f"<!-- {section.name}: begin -->", f"<!-- {section.name}: end -->"
        marked = f"{begin}\n{section.text.strip()}\n{end}"
        place = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        found = place.search(text)
        text = f"{text[: found.start()]}{marked}{text[found.end() :]}" if found else f"{text.rstrip()}\n\n{marked}\n"
        for name, svg in section.pictures.items():
            (page.parent / name).write_text(svg, encoding="utf-8")
    page.write_text(text, encoding="utf-8")


def _line(row: Row) -> str:
    name = f"**{row.name}**" if row.role == "ours" else row.name
    ratios = [f"{r:.2f}" if r else "-" for r in (row.wall_to_floor, row.cpu_to_floor, row.wall_to_ours)]
    cells = [name, row.way, row.verifies, f"{row.wall_s:.2f} ({row.least_s:.2f} to {row.most_s:.2f})"]
    cells += [f"{row.rate_gb_s:.3g}", f"{row.cpu_s_per_gb:.2f}", f"{row.peak_mb:.0f}", *ratios]
    return f"| {' | '.join(cells)} |"
