"""`larder gc`: shows the claims that Larder created and whose owner is gone, and deletes them on request."""

import argparse
import shutil
from collections.abc import Iterator, Sequence
from itertools import groupby

from controller.cli.cluster import add_cluster_options, add_namespace_options, run_on_cluster
from controller.cli.gc.decide import ObservedClaim, OrphanedClaim, orphaned_claims
from controller.cli.gc.observe import ClaimUsers, OrphanObserver
from controller.cli.table import Column, lay_out
from shared.api.core import claims_in
from shared.exit_codes import printable
from shared.kube.edit import delete_if_present
from shared.kube.errors import KubeError
from shared.kube.objects import Key
from shared.kube.transport import Kube

_COLUMNS = (
    Column("NAMESPACE"), Column("CLAIM"), Column("SIZE"), Column("OWNER", folds=True, drop=1),
    Column("RESULT", folds=True),
)  # fmt: skip
_WOULD = "would be deleted"
_HINT = "nothing was deleted; add --delete to delete these claims and the data on their volumes"


def main(arguments: Sequence[str]) -> int:
    """Print one row per orphaned claim; return 1 if the cluster does not answer, or a deletion failed."""
    parser = argparse.ArgumentParser(
        prog="larder gc",
        description="Show the PersistentVolumeClaims that Larder created and whose owner is gone, for example after "
        "`kubectl delete --cascade=orphan`. Claims that a pod mounts are never deleted.",
    )
    parser.add_argument("--delete", action="store_true", help="delete them (default: only show them)")
    add_cluster_options(parser)
    add_namespace_options(parser, all_namespaces=True)
    options = parser.parse_args(arguments)

    async def show(kube: Kube) -> int:
        namespace = "" if options.all_namespaces else kube.namespace
        rows = await collect(kube, namespace, delete=options.delete)
        width = shutil.get_terminal_size(fallback=(0, 0)).columns
        print("\n".join(lines_of(rows, width)) or "Larder has no orphaned claims")
        if any(result == _WOULD for _, result in rows):
            print(_HINT)
        return 1 if any(result.startswith("failed") for _, result in rows) else 0

    return run_on_cluster(options, show)


async def collect(kube: Kube, namespace: str = "", *, delete: bool = False) -> list[tuple[OrphanedClaim, str]]:
    """Return each orphaned claim with what happened to it. Raises KubeError if they cannot be read."""
    orphans = orphaned_claims(await OrphanObserver(kube).claims(namespace))
    if not delete:
        return [(orphan, f"kept: {orphan.keep_reason}" if orphan.keep_reason else _WOULD) for orphan in orphans]
    results = list[tuple[OrphanedClaim, str]]()
    for each, found in groupby(orphans, lambda orphan: orphan.claim.namespace):
        results += await _collect_namespace(kube, each, list(found))
    return results


async def _collect_namespace(
    kube: Kube, namespace: str, orphans: list[OrphanedClaim]
) -> list[tuple[OrphanedClaim, str]]:
    """Delete the claims of a namespace, except those that a pod has mounted since they were read."""
    users = await OrphanObserver(kube).users(namespace) if any(not orphan.keep_reason for orphan in orphans) else {}
    results = list[tuple[OrphanedClaim, str]]()
    for orphan in orphans:
        pods = users.get(Key(namespace, orphan.claim.name), ClaimUsers())
        reason = orphan.keep_reason or (f"mounted by pod {pods.active[0]}" if pods.active else "")
        results.append((orphan, f"kept: {reason}" if reason else await _delete(kube, orphan.claim, pods.ended)))
    return results


async def _delete(kube: Kube, claim: ObservedClaim, ended: Sequence[str]) -> str:
    try:
        path = f"{claims_in(claim.namespace)}/{claim.name}"
        deleted = await delete_if_present(kube, path, claim.uid, claim.resource_version)
    except KubeError as error:
        return f"failed: {error}"
    if not deleted:
        return "kept: it changed in the meantime; run the command again"
    # Kubernetes protects the claim from deletion while a pod names it, even one that has ended
    return f"deleted; it disappears once pod {ended[0]}, which has ended, is deleted" if ended else "deleted"


def lines_of(rows: Sequence[tuple[OrphanedClaim, str]], width: int) -> Iterator[str]:
    """Yield the table in lines of `width` characters; 0 means any length."""
    if not rows:
        return
    cells = [(o.claim.namespace, o.claim.name, o.claim.size, o.owner, result) for o, result in rows]
    layout = lay_out(_COLUMNS, cells, width)
    for row in ([column.head for column in _COLUMNS], *cells):
        for line in layout.lines(row):
            yield printable("  ".join(line)).rstrip()
