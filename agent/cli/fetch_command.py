"""`larder fetch URI --to DIR`."""

import argparse
import os
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from shared.exit_codes import leave, open_streams
from shared.selection.choice import Selection, make_selection

_URI_FORMS = (
    "hf://ORG/REPO[@REVISION], s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://ACCOUNT/CONTAINER/PREFIX, "
    "oci://REGISTRY/REPOSITORY[:TAG], oci://n/NAMESPACE/b/BUCKET/o/PREFIX, https://HOST/FILE, "
    "git+https://HOST/REPOSITORY[?ref=REVISION] or local:///PATH"
)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="larder fetch", description="Download a model into a directory and verify its files."
    )
    parser.add_argument("uri", metavar="URI", help=_URI_FORMS)
    parser.add_argument(
        "--to",
        metavar="DIR",
        type=_directory,
        required=True,
        help="directory for the files; created if it does not exist",
    )
    parser.add_argument(
        "--layout",
        choices=("directory", "hub"),
        default="directory",
        help="hub: DIR is a cache of huggingface_hub, such as $HF_HUB_CACHE (default: directory)",
    )
    parser.add_argument(
        "--concurrency",
        metavar="N",
        type=_thread_count,
        default=4,
        help="large files to download at a time, from 1 to 64 (default: 4)",
    )
    selection_arguments(parser)
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json"),
        default="text",
        help="json: print one JSON object to stdout (default: text)",
    )
    parser.add_argument("--quiet", action="store_true", help="print only errors and, with --output json, the result")
    return parser


def selection_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that choose files."""
    parser.add_argument(
        "--allow",
        metavar="PATTERN",
        action="append",
        default=[],
        help="download only files that match; may be repeated",
    )
    parser.add_argument(
        "--ignore", metavar="PATTERN", action="append", default=[], help="skip files that match; may be repeated"
    )
    parser.add_argument(
        "--duplicate-weights",
        choices=("keep", "skip"),
        default="keep",
        help="skip: leave out second copies of the same weights (default: keep)",
    )
    parser.add_argument(
        "--no-pickle", action="store_true", help="refuse the model if any of its files might be a pickle"
    )


def selection_of(options: argparse.Namespace) -> Selection:
    """Return the selection that the arguments describe. Raises ValueError if a pattern is invalid."""
    pickle = not options.no_pickle
    return make_selection(options.allow, options.ignore, options.duplicate_weights, pickle=pickle)


def _directory(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("the path is empty; name a directory, for example . for the current one")
    return Path(text)


def _thread_count(text: str) -> int:
    with suppress(ValueError):
        if 1 <= (number := int(text)) <= 64:  # noqa: PLR2004 - the most threads
            return number
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 64")


def _parsed(arguments: Sequence[str]) -> tuple[argparse.Namespace, Selection]:
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        return options, selection_of(options)
    except ValueError as error:
        parser.error(str(error))


def main(arguments: Sequence[str]) -> int:
    """Run the command; SIGINT and SIGTERM end it within a second and keep verified bytes."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    options, selection = _parsed(arguments)
    from agent.cli.fetch import run_fetch  # noqa: PLC0415 - slow to import, and a signal may arrive meanwhile

    stdout, stderr = open_streams()
    code = run_fetch(
        options.uri,
        options.to,
        os.environ,
        stdout,
        stderr,
        concurrency=options.concurrency,
        quiet=options.quiet,
        as_json=options.output == "json",
        stop=stop,
        selection=selection,
        hub_layout=options.layout == "hub",
    )
    return leave(code)
