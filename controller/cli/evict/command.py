"""`larder evict --dry-run`: reads ModelNodes and pods, and changes nothing."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from controller.cli.evict.preview import Preview, Question, is_listed, preview
from controller.nodes.users import users_of
from shared.api.core import PODS
from shared.api.model_node import PATH, ModelNode
from shared.errors import LarderError
from shared.kube.collection import decode, get_object, list_objects, pages
from shared.kube.errors import NotFound
from shared.kube.transport import Kube, connect
from shared.quantity import parse_quantity

_ONLY_DRY = (
    "evictions happen by themselves, where evictionPolicy of a node's groups allows them and a model needs room; "
    "this command only shows them: add --dry-run"
)
_LONGEST_S = 1e9  # some thirty years
_COLUMNS = 200  # where no terminal says how wide it is


def main(arguments: Sequence[str]) -> int:
    """Print a table a node; 1 where the cluster does not answer or there is no such node or model."""
    parser = argparse.ArgumentParser(prog="larder evict", description="What would go to make room, and why not.")
    parser.add_argument("--dry-run", action="store_true", help="needed: nothing else is offered")
    parser.add_argument("--node", help="this node alone (all)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--need", type=_size, metavar="SIZE", help="room for so many bytes, for example 50Gi")
    what.add_argument("--for", dest="model", default="", metavar="MODEL", help="room for this model, by its id")
    parser.add_argument("--priority", type=int, default=0, help="of what --need asks for (%(default)s)")
    parser.add_argument(
        "--idle", type=_seconds, default=3600, metavar="SECONDS", help="as the controller has it (%(default)s)"
    )
    parser.add_argument("--kubeconfig", type=Path, help="default: as kubectl's")
    given = parser.parse_args(arguments)
    if not given.dry_run:
        parser.error(_ONLY_DRY)
    question = Question(given.model, given.need, given.priority, given.idle)
    try:
        found = asyncio.run(_ask(given.kubeconfig, given.node, question))
    except LarderError as error:
        sys.stderr.write(f"{error.reason}: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    console = Console(soft_wrap=True) if sys.stdout.isatty() else Console(soft_wrap=True, width=_COLUMNS)
    for one in found:
        _show(console, one)
    return 0


def _size(text: str) -> int:
    try:
        size = parse_quantity(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if size < 1:
        raise argparse.ArgumentTypeError(f"{text} asks for no room; write a size above 0, for example 50Gi")
    return size


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write seconds, 0 or more, for example 3600")
    return seconds


async def _ask(kubeconfig: Path | None, node: str | None, question: Question) -> list[Preview]:
    async with connect(kubeconfig, user_agent="larder-cli") as kube:
        return await previews(kube, node, question, datetime.now(UTC))


async def previews(kube: Kube, node: str | None, question: Question, now: datetime) -> list[Preview]:
    """Return what would happen on a node, or on all. Raises KubeError, NotFound among them where none has the model."""
    nodes = await _model_nodes(kube, node)
    if question.model and not any(is_listed(one, question.model) for one in nodes):
        where = f"on node {node}" if node else "on any node"
        raise NotFound(f"there is no model with the id {question.model} {where}; `larder status` shows the models")
    found = [preview(one, await _users(kube, one), question, now) for one in nodes]
    return sorted(found, key=lambda one: one.node)


async def _model_nodes(kube: Kube, name: str | None) -> list[ModelNode]:
    if name is None:
        return await list_objects(kube, PATH, ModelNode)
    one = await get_object(kube, f"{PATH}/{name}", ModelNode)
    if one is None:
        raise NotFound(f"there is no ModelNode {name}; see `kubectl get modelnodes`")
    return [one]


async def _users(kube: Kube, node: ModelNode) -> dict[tuple[str, str], tuple[str, ...]]:
    query = {"fieldSelector": f"spec.nodeName={node.metadata.name}"}
    pods = [decode(raw, dict[str, Any]) async for page in pages(kube, PODS, query) for raw in page.items]
    return users_of(pods, [e.key for e in node.spec.entries], node.status.store_root)


def _show(console: Console, found: Preview) -> None:
    for line in (f"node {found.node}", *(f"  {line}" for line in found.lines)):
        console.print(Text(line))
    if found.rows:
        table = Table(box=None, pad_edge=True, header_style="bold")
        for head in ("MODEL", "REVISION", "FREES", "PRIORITY", "IDLE SINCE", "VERDICT"):
            table.add_column(head, no_wrap=True)
        for row in found.rows:
            cells = (row.model, row.revision, row.frees, row.priority, row.idle_since, row.verdict)
            table.add_row(*map(Text, cells))
        console.print(table)
