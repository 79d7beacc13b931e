"""`larder inspect URI`: describes a model by reading parts of its files."""

import argparse
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

import msgspec

from controller.cli.inspect_source import RetryingSource, run_watched
from controller.cli.inspect_table import table_of
from shared.errors import RateLimited, StoreFailure
from shared.exit_codes import INTERRUPTED, failure_line, leave, open_streams, printable, write_line
from shared.metadata.files import DirectoryFiles, ModelFiles, SourceFiles, remark_on
from shared.metadata.model_metadata import Metadata
from shared.metadata.reader import read_metadata
from shared.sources.for_commands import open_for_command


def main(arguments: Sequence[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="larder inspect", description="Describe a model without downloading it.")
    parser.add_argument("uri", metavar="URI", help="a model's URI as in `larder fetch`, or a path on this machine")
    parser.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="the output format (default: table)"
    )
    options = parser.parse_args(arguments)
    stdout, stderr = open_streams()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return leave(run_inspect(options.uri, os.environ, stdout, stderr, output=options.output))


def run_inspect(uri: str, environ: Mapping[str, str], stdout: TextIO, stderr: TextIO, *, output: str = "table") -> int:
    """Print a model's metadata; return 0, or 1 after one line `Reason: message` on stderr.

    Broken files that are not needed are reported on stderr, too; on a terminal, so is a source that rate-limits.
    """
    try:
        found = _inspect(uri, environ, stderr)
    except KeyboardInterrupt:
        write_line("Stopped: nothing was changed; run it again", stderr)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - every failure is reported in one line
        write_line(failure_line(error), stderr)
        return 1
    metadata, remark = found
    try:
        print(_text_of(metadata, output), file=stdout, flush=True)
    except BrokenPipeError:  # the reader has closed the pipe
        return 1
    except OSError as error:
        write_line(
            failure_line(StoreFailure(f"the output cannot be written: {error.strerror}; write it elsewhere")), stderr
        )
        return 1
    if remark:
        write_line(f"Remark: {printable(remark)}", stderr)
    return 0


def _text_of(found: Metadata, output: str) -> str:
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(found)).decode()
    return "\n".join(printable(line) for line in table_of(found))


def _inspect(uri: str, environ: Mapping[str, str], stderr: TextIO) -> tuple[Metadata, str]:
    """Return the metadata, and a remark on what was skipped."""
    if "://" not in uri:
        files = _on_this_machine(Path(uri))
        return read_metadata(files), remark_on(files)
    source = RetryingSource(open_for_command(uri, environ))

    def report_wait(error: RateLimited) -> None:
        if stderr.isatty():
            write_line(f"Waiting: {failure_line(error)}", stderr)

    try:
        return run_watched(source, lambda: read_metadata(SourceFiles(source)), report_wait), ""
    finally:
        source.close()


def _on_this_machine(path: Path) -> ModelFiles:
    """Return a local directory or file; relative links may lead anywhere that the user may read."""
    found = path.absolute()
    if found.is_file():
        return DirectoryFiles("/", str(found.parent).lstrip("/"), only=found.name, shown=str(path))
    return DirectoryFiles("/", str(found).lstrip("/"), shown=str(path))
