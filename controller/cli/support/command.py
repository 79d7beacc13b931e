"""`larder support`: writes a single file to attach to a ticket, without secrets."""

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from controller.cli.cluster import add_cluster_options, run_on_cluster
from controller.cli.support.bundle import ROOT, Bundle, open_bundle
from controller.cli.support.collect import Collector, LogLimits
from shared import __version__
from shared.exit_codes import leave, open_streams, write_line
from shared.kube.transport import Kube
from shared.quantity import format_bytes


def main(arguments: Sequence[str]) -> int:
    """Write the bundle; return 1 if the cluster does not answer or the file cannot be written."""
    parser = argparse.ArgumentParser(
        prog="larder support", description="Collect what a support ticket needs into one file, without reading Secrets."
    )
    add_cluster_options(parser)
    parser.add_argument(
        "-n", "--namespace", default="larder-system", help="the namespace that Larder runs in (default: %(default)s)"
    )
    parser.add_argument(
        "-o", "--output", type=_file, default=Path(f"{ROOT}.tar.gz"), help="the file to write (default: %(default)s)"
    )
    parser.add_argument(
        "--lines", type=_count, default=LogLimits().lines, help="the number of lines of each log (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    try:
        with open_bundle(options.output, datetime.now(UTC)) as bundle:
            code = run_on_cluster(options, lambda kube: _collect(kube, bundle, options))
    except OSError as error:
        return _cannot_write(options.output, error)
    if code:
        return code
    missing = f"; {len(bundle.errors)} items are missing, see errors.txt" if bundle.errors else ""
    size = format_bytes(options.output.stat().st_size)
    stdout, _ = open_streams()
    write_line(f"{options.output}: {len(bundle.contents) + 1} files, {size}{missing}", stdout)
    write_line(
        "Secrets were not read, and text that looks like one was removed. Review the file before you send it.", stdout
    )
    return leave(0)


async def _collect(kube: Kube, bundle: Bundle, options: argparse.Namespace) -> int:
    try:
        await Collector(kube, bundle, options.namespace, __version__, LogLimits(lines=options.lines)).run()
        bundle.close()
    except OSError as error:
        return _cannot_write(options.output, error)
    return 0


def _cannot_write(path: Path, error: OSError) -> int:
    reason = error.strerror or str(error)
    sys.stderr.write(f"StoreFailure: {path} cannot be written: {reason}; name another file with --output\n")
    return 1


def _file(text: str) -> Path:
    path = Path(text)
    if not path.name or path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a file; write, for example, {ROOT}.tar.gz")
    return path


def _count(text: str) -> int:
    with suppress(ValueError):
        if (count := int(text)) > 0:
            return count
    raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of lines; write, for example, 2000")
