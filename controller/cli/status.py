"""`larder status`: what is where, how far, and why not."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table as RichTable
from rich.text import Text

from controller.cli.report import Row, Table, build_table
from shared.api.kinds import BASE_MODEL, CLUSTER_BASE_MODEL, CLUSTER_MODEL_CACHE, MODEL_NODE, Definition
from shared.errors import LarderError
from shared.exits import failure_line
from shared.kube.errors import NotFound
from shared.kube.transport import Kube, connect

_MODELS = (CLUSTER_MODEL_CACHE, CLUSTER_BASE_MODEL, BASE_MODEL)
_AGAIN_S = 1.0
_LOG_COLUMNS = 200  # where no terminal says how wide it is
_COLOURS = {"Ready": "green", "Failed": "red", "Downloading": "cyan", "NotReady": "yellow"}
Json = dict[str, Any]


def main(arguments: Sequence[str]) -> int:
    """Show the table once, or until interrupted; 1 where the cluster does not answer."""
    parser = argparse.ArgumentParser(prog="larder status", description="Models and nodes: what is where, and why not.")
    parser.add_argument("--kubeconfig", type=Path, help="default: as kubectl's")
    parser.add_argument("-w", "--watch", action="store_true", help="show it again every second")
    given = parser.parse_args(arguments)
    try:
        asyncio.run(_show(given.kubeconfig, watch=given.watch))
    except LarderError as error:
        sys.stderr.write(f"{failure_line(error)}\n")
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


async def _show(kubeconfig: Path | None, *, watch: bool) -> None:
    console = Console(soft_wrap=True) if sys.stdout.isatty() else Console(soft_wrap=True, width=_LOG_COLUMNS)
    async with connect(kubeconfig, user_agent="larder-cli") as kube:
        if not watch:
            table = await read_table(kube)
            console.print(show(table))
            return
        with Live(console=console, auto_refresh=False) as live:
            while True:
                live.update(show(await read_table(kube)), refresh=True)
                await asyncio.sleep(_AGAIN_S)


async def read_table(kube: Kube) -> Table:
    """Read every model and every ModelNode. Raises KubeError."""
    found = await asyncio.gather(*(_list(kube, d) for d in (*_MODELS, MODEL_NODE)))
    models = [item | {"kind": d.kind} for d, items in zip(_MODELS, found[:-1], strict=True) for item in items]
    return build_table(models, [node["metadata"]["name"] for node in found[-1]])


def show(table: Table) -> Group:
    """Return the table, and below it a line for everything that somebody may have to act on, then what is left out."""
    troubles = (Text(line, style="yellow") for line in table.troubles)
    return Group(render(table), *troubles, *(Text(line) for line in table.notes))


def render(table: Table) -> RichTable:
    """Return the table in colours; for a terminal or a log."""
    shown = RichTable(box=None, pad_edge=False, header_style="bold")
    for head in ("MODEL", "STATE", "READY", "SIZE", *table.nodes, "REASON"):
        shown.add_column(head, no_wrap=True)
    for row in table.rows:
        shown.add_row(*_cells(row))
    if not table.rows:
        shown.add_row("no models are declared", *[""] * (len(table.nodes) + 4))
    return shown


def _cells(row: Row) -> list[Text]:
    """Brackets in words of agents and sources are words, and no mark-up."""
    state, *cells = (Text(text, style=_COLOURS.get(text.partition(" ")[0], "")) for text in (row.state, *row.cells))
    return [Text(row.model), state, Text(row.ready), Text(row.size), *cells, Text(row.reason)]


async def _list(kube: Kube, definition: Definition) -> list[Json]:
    try:
        body = await kube.request("GET", definition.path)
    except NotFound as error:
        raise NotFound(f"the cluster does not serve {definition.name}; is Larder installed there? ({error})") from error
    items: list[Json] = msgspec.json.decode(body)["items"]
    return items
