"""`larder evict --dry-run`: reads ModelNodes and pods and changes nothing."""

import argparse
import shutil
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from urllib.parse import quote

from controller.cli.cluster import add_cluster_options, run_on_cluster
from controller.cli.evict.preview import Preview, SpaceRequest, is_listed, preview
from controller.cli.table import Column, lay_out
from controller.nodes.users import users_of
from controller.placement.volume_names import VOLUME_LABEL
from shared.api.core import PODS, VOLUMES, PersistentVolume, Pod
from shared.api.model_node import PATH, ModelNode
from shared.exit_codes import printable
from shared.kube.collection import get_object, list_objects
from shared.kube.errors import NotFound
from shared.kube.objects import Key
from shared.kube.transport import Kube
from shared.quantity import parse_quantity

_ONLY_DRY = (
    "this command only previews evictions, so --dry-run is required; the controller evicts on its own where a model "
    "needs room and evictionPolicy of the node's groups allows it"
)
_LONGEST_S = 1e9  # about thirty years
_COLUMNS = (
    Column("MODEL", folds=True), Column("REVISION", drop=2), Column("FREES"), Column("PRIORITY", drop=1),
    Column("IDLE SINCE", drop=3), Column("RESULT", folds=True),
)  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Print one table per node; return 1 if the cluster does not answer, or no such node or model exists."""
    parser = argparse.ArgumentParser(
        prog="larder evict", description="Preview which models would be evicted to make room, and why others would not."
    )
    parser.add_argument("--dry-run", action="store_true", help="required: this command never evicts")
    parser.add_argument("--node", help="only this node (default: all)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--need", type=_size, metavar="SIZE", help="make room for this many bytes, for example 50Gi")
    what.add_argument("--for", dest="model", default="", metavar="MODEL", help="make room for the model with this id")
    parser.add_argument("--priority", type=int, default=0, help="the priority of --need (default: %(default)s)")
    parser.add_argument(
        "--idle",
        type=_seconds,
        default=3600,
        metavar="SECONDS",
        help="how long a model must have been unused (default: %(default)s)",
    )
    add_cluster_options(parser)
    options = parser.parse_args(arguments)
    if not options.dry_run:
        parser.error(_ONLY_DRY)
    request = SpaceRequest(options.model, options.need, options.priority, options.idle)
    return run_on_cluster(options, lambda kube: _show(kube, options.node, request))


def _size(text: str) -> int:
    try:
        size = parse_quantity(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if size < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive size; write, for example, 50Gi")
    return size


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; write a number of seconds, for example 3600")
    return seconds


async def _show(kube: Kube, node: str | None, request: SpaceRequest) -> int:
    found = await previews(kube, node, request, datetime.now(UTC))
    width = shutil.get_terminal_size(fallback=(0, 0)).columns
    text = "\n".join(line for one in found for line in lines_of(one, width))
    none = "there are no ModelNodes: the controller has not created them; check that a controller replica is the leader"
    print(text or none)
    return 0


async def previews(kube: Kube, node: str | None, request: SpaceRequest, now: datetime) -> list[Preview]:
    """Return what would happen on one node, or on all. Raises KubeError, including NotFound if none has the model."""
    nodes = await _model_nodes(kube, node)
    if request.model and not any(is_listed(one, request.model) for one in nodes):
        where = f"on node {node}" if node else "on any node"
        raise NotFound(f"there is no model with the id {request.model} {where}; `larder status` shows the models")
    found = [preview(one, await _users(kube, one), request, now) for one in nodes]
    return sorted(found, key=lambda one: one.node)


async def _model_nodes(kube: Kube, name: str | None) -> list[ModelNode]:
    if not name:
        return await list_objects(kube, PATH, ModelNode)
    one = await get_object(kube, f"{PATH}/{quote(name, safe='')}", ModelNode)
    if one is None:
        raise NotFound(f"there is no ModelNode {name}; `kubectl get modelnodes` lists them")
    return [one]


async def _users(kube: Kube, node: ModelNode) -> dict[tuple[str, str], tuple[str, ...]]:
    query = {"fieldSelector": f"spec.nodeName={node.metadata.name}"}
    pods = await list_objects(kube, PODS, Pod, query)
    keys, paths = [e.key for e in node.spec.entries], await _paths_of_claims(kube)
    roots = _roots(pods, paths.values())
    return {key: names for root in roots for key, names in users_of(pods, keys, root, paths).items()}


async def _paths_of_claims(kube: Kube) -> dict[Key, str]:
    """Return the directory on nodes behind each claim of a model."""
    volumes = await list_objects(kube, VOLUMES, PersistentVolume, {"labelSelector": f"{VOLUME_LABEL}=true"})
    return {volume.claim: volume.spec.local.path for volume in volumes}


def _roots(pods: list[Pod], claimed: Iterable[str]) -> set[str]:
    """Return the roots of stores that pods may mount models from; this setting of the controller is in no object."""
    hosted = (path for pod in pods for path in pod.spec.host_paths)
    return {root for path in (*hosted, *claimed) if (root := path.rpartition("/models/")[0])}


def lines_of(found: Preview, width: int) -> Iterator[str]:
    """Yield a node's totals, then its table in lines of `width` characters; 0 means any length."""
    yield from (printable(line) for line in (f"node {found.node}", *(f"  {line}" for line in found.lines)))
    rows = [(row.model, row.revision, row.frees, row.priority, row.idle_since, row.result) for row in found.rows]
    if rows:
        layout = lay_out(_COLUMNS, rows, max(0, width - 1))
        for row in ([column.head for column in _COLUMNS], *rows):
            for line in layout.lines(row):
                yield printable(f" {'  '.join(line)}").rstrip()
