"""`larder support`: writes a single file to attach to a ticket, without secrets."""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from controller.cli.cluster import add_cluster_options, run_on_cluster
from controller.cli.support.bundle import ROOT, Bundle, written
from controller.cli.support.collect import Collector, LogLimits
from shared import __version__
from shared.kube.transport import Kube
from shared.quantity import format_bytes


def main(arguments: Sequence[str]) -> int:
    """Write the bundle; return 1 if the cluster does not answer or the file cannot be written."""
    parser = argparse.ArgumentParser(
        prog="larder support", description="Collect what a ticket needs into one file. No Secret is read."
    )
    add_cluster_options(parser)
    parser.add_argument("-n", "--namespace", default="larder-system", help="where Larder runs (%(default)s)")
    parser.add_argument("-o", "--output", type=Path, default=Path(f"{ROOT}.tar.gz"), help="%(default)s")
    parser.add_argument("--lines", type=_count, default=LogLimits().lines, help="lines of each log (%(default)s)")
    given = parser.parse_args(arguments)
    try:
        with written(given.output, datetime.now(UTC)) as bundle:
            code = run_on_cluster(given, lambda kube: _collect(kube, bundle, given))
    except OSError as error:
        return _cannot_write(given.output, error)
    if code:
        return code
    missing = f"; {len(bundle.errors)} things are not in it, see errors.txt" if bundle.errors else ""
    size = format_bytes(given.output.stat().st_size)
    print(f"{given.output}: {len(bundle.contents) + 1} files, {size}{missing}")
    print("Secrets were not read, and what looks like one was taken out. Look through it before you send it.")
    return 0


async def _collect(kube: Kube, bundle: Bundle, given: argparse.Namespace) -> int:
    try:
        await Collector(kube, bundle, given.namespace, __version__, LogLimits(lines=given.lines)).run()
        bundle.close()
    except OSError as error:
        return _cannot_write(given.output, error)
    return 0


def _cannot_write(path: Path, error: OSError) -> int:
    why = error.strerror or str(error)
    sys.stderr.write(f"StoreFailure: {path} cannot be written: {why}; name another file with --output\n")
    return 1


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("write a number of lines, 1 or more")
    return count
