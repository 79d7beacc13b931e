"""`larder support`: one file for a ticket, without a secret in it."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from controller.cli.support.bundle import ROOT, Bundle, written
from controller.cli.support.collect import Collector, Limits
from shared.errors import LarderError
from shared.kube.transport import connect
from shared.quantity import format_bytes


def main(arguments: Sequence[str]) -> int:
    """Write the bundle; 1 where the cluster does not answer or the file cannot be written."""
    parser = argparse.ArgumentParser(
        prog="larder support", description="Collect what a ticket needs into one file. No Secret is read."
    )
    parser.add_argument("--kubeconfig", type=Path, help="default: as kubectl's")
    parser.add_argument("-n", "--namespace", default="larder-system", help="where Larder runs (%(default)s)")
    parser.add_argument("-o", "--output", type=Path, default=Path(f"{ROOT}.tar.gz"), help="%(default)s")
    parser.add_argument("--lines", type=_count, default=Limits().lines, help="lines of each log (%(default)s)")
    given = parser.parse_args(arguments)
    try:
        with written(given.output, datetime.now(UTC)) as bundle:
            asyncio.run(_collect(given.kubeconfig, given.namespace, given.lines, bundle))
    except LarderError as error:
        sys.stderr.write(f"{error.reason}: {error}\n")
        return 1
    except OSError as error:
        why = error.strerror or str(error)
        sys.stderr.write(f"StoreFailure: {given.output} cannot be written: {why}; name another file with --output\n")
        return 1
    except KeyboardInterrupt:
        return 130
    missing = f"; {len(bundle.errors)} things are not in it, see errors.txt" if bundle.errors else ""
    size = format_bytes(given.output.stat().st_size)
    print(f"{given.output}: {len(bundle.contents) + 1} files, {size}{missing}")
    print("Secrets were not read, and what looks like one was taken out. Look through it before you send it.")
    return 0


async def _collect(kubeconfig: Path | None, namespace: str, lines: int, bundle: Bundle) -> None:
    async with connect(kubeconfig, user_agent="larder-cli") as kube:
        await Collector(kube, bundle, namespace, version("larder"), Limits(lines=lines)).run()


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("write a number of lines, 1 or more")
    return count
