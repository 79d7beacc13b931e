"""`larder fetch URI --to DIR`."""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from agent.cli.fetch import run_fetch


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="larder fetch", description="Fetch a model's files into a directory, verified."
    )
    parser.add_argument("uri", metavar="URI", help="hf://ORG/REPO[@REVISION], s3://BUCKET/PREFIX or https://HOST/FILE")
    parser.add_argument("--to", metavar="DIR", type=Path, required=True, help="where the files go")
    parser.add_argument("--concurrency", metavar="N", type=_positive, default=4, help="large files at a time (4)")
    parser.add_argument("--quiet", action="store_true", help="write nothing but a failure")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 64:  # noqa: PLR2004 - threads, not a queue
        raise argparse.ArgumentTypeError("write a number from 1 to 64")
    return number


def main(arguments: Sequence[str]) -> int:
    """Run the command; SIGINT and SIGTERM end it within a second, with what is verified kept."""
    options = _parser().parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return run_fetch(
        options.uri,
        options.to,
        os.environ,
        sys.stdout,
        sys.stderr,
        concurrency=options.concurrency,
        quiet=options.quiet,
        stop=stop,
    )
