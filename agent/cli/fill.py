"""`larder fill URI --to DIR`: run by a download Job, which puts a model on a PersistentVolumeClaim."""

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TextIO

import msgspec

from agent.cli.fetch import SelectedSource, fetch_into, run_with_progress
from agent.cli.fetch_command import selection_arguments, selection_of
from agent.cli.layouts import plain_directory
from agent.cli.old_versions import remove_old_versions
from agent.cli.progress_line import ProgressLine
from agent.cli.progress_server import ProgressServer
from agent.cli.sequential_fetch import SequentialFetch, can_link
from agent.cli.standalone_fetch import Outcome, StandaloneFetch
from agent.store.disk import translated
from agent.transfer.progress import Progress
from agent.transfer.rate_limit import RateLimiter
from agent.transfer.receive import Stopped
from shared.download_report import NEEDS_ACTION, PROGRESS_PORT, DownloadReport, encode_report
from shared.errors import InternalError, InvalidURI, LarderError
from shared.exit_codes import INTERRUPTED
from shared.manifest import File, Manifest
from shared.sources.credential_keys import ENDPOINT_KEY
from shared.sources.port import Body, Credentials, Source
from shared.sources.schemes import OpenSource, open_source
from shared.sources.settings import SourceSettings, settings_from_environ
from shared.uri.model_uri import parse_uri

_CONCURRENCY = 4
COMPLETED = ".completed"  # next to the model's directory
_LONGEST_VALUE_BYTES = 1024 * 1024


def main(arguments: Sequence[str]) -> int:
    """Run the command; SIGTERM ends it within a second and keeps verified bytes, from which the next pod resumes."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return run_fill(arguments, os.environ, sys.stdout, stop)


@dataclass(slots=True)
class RenamedFile:
    """A source of one file, under another name; it is not unpacked if the name has no archive suffix."""

    source: Source
    name: str
    _file: File | None = field(default=None, init=False)

    def resolve(self) -> Manifest:
        """See `Source.resolve`. Raises InvalidURI if there is not exactly one file."""
        manifest = self.source.resolve()
        if len(manifest.files) != 1:
            raise InvalidURI(f"{manifest.uri} has {len(manifest.files)} files; --file-name needs a source of one file")
        self._file = manifest.files[0]
        return msgspec.structs.replace(manifest, files=(msgspec.structs.replace(self._file, path=self.name),))

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """See `Source.open`."""
        named = file if self._file is None else msgspec.structs.replace(file, path=self._file.path)
        return self.source.open(named, offset, length)

    def close(self) -> None:
        """See `Source.close`."""
        self.source.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="larder fill", description="Put a revision of a model on a mounted claim, and write the result to a file."
    )
    parser.add_argument("uri", metavar="URI", help="the model's canonical URI")
    parser.add_argument("--to", metavar="DIR", type=Path, required=True, help="directory on the claim for the files")
    parser.add_argument("--revision", default="", help="the revision that the source must have")
    parser.add_argument("--file-name", metavar="NAME", default="", help="name for the only file of the source")
    parser.add_argument(
        "--endpoint", metavar="URL", default="", help="the S3 endpoint, if it differs from the configured one"
    )
    parser.add_argument(
        "--keep",
        metavar="DIR",
        action="append",
        default=[],
        help="directory of a version to keep, `.` for the claim's root; may be repeated; if given, all other versions "
        "are removed first",
    )
    parser.add_argument("--no-mark", action="store_true", help="do not write .completed beside the directory")
    parser.add_argument(
        "--limit",
        metavar="BYTES",
        type=int,
        default=0,
        help="maximum download rate in bytes per second; 0 means no limit",
    )
    parser.add_argument("--credentials", metavar="DIR", type=Path, help="directory with a file for each credential")
    parser.add_argument(
        "--host", metavar="PATTERN", action="append", default=[], help="host that may receive the credentials"
    )
    parser.add_argument("--progress-port", metavar="PORT", type=int, default=PROGRESS_PORT)
    parser.add_argument(
        "--report",
        metavar="FILE",
        type=Path,
        default=Path("/dev/termination-log"),
        help="file for the result (default: /dev/termination-log)",
    )
    selection_arguments(parser)
    return parser


def run_fill(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    stdout: TextIO,
    stop: threading.Event,
    opener: OpenSource = open_source,
) -> int:
    """Fill the directory; return 0, or an exit code once the reason is in the report."""
    options = _parser().parse_args(arguments)
    try:
        report, code = _report_of(_fill(options, environ, stdout, stop, opener)), 0
    except Stopped:
        return INTERRUPTED  # nothing failed: the next pod continues
    except LarderError as error:
        report = DownloadReport(reason=error.reason, message=str(error))
        code = 1 if error.retryable else NEEDS_ACTION
    except Exception as error:  # noqa: BLE001 - every failure is reported
        report = DownloadReport(reason=InternalError.__name__, message=f"{type(error).__name__}: {error}")
        code = 1
    body = encode_report(report)
    options.report.write_bytes(body)
    print(body.decode(), file=stdout)
    return code


def _fill(
    options: argparse.Namespace, environ: Mapping[str, str], stdout: TextIO, stop: threading.Event, opener: OpenSource
) -> Outcome:
    settings = _settings(environ, options.endpoint)
    credentials = _credentials(options.credentials, options.host, options.endpoint)
    opened = opener(parse_uri(options.uri), credentials, settings)
    if options.file_name:
        opened = RenamedFile(opened, options.file_name)
    source = SelectedSource(opened, selection_of(options))
    mark: Path | None = None if options.no_mark else options.to.parent / COMPLETED
    progress = Progress()
    try:
        with ProgressServer(progress, options.progress_port):
            if options.keep:
                remove_old_versions(options.to, options.keep, partial(print, file=stdout))
            if mark is not None:
                with translated(f"removing {mark}"):
                    mark.unlink(missing_ok=True)
            task, line = _fetch_task(source, options, progress, stop), ProgressLine(stdout, quiet=False)
            if isinstance(task, StandaloneFetch):
                outcome = fetch_into(task, line)
            else:
                print(f"{options.to} does not support hard links: each file is written in place", file=stdout)
                outcome = run_with_progress(task, line)
            if mark is not None:
                _mark_completed(mark, outcome, is_replaceable=isinstance(task, StandaloneFetch))
    finally:
        source.close()
    return outcome


def _fetch_task(
    source: Source, options: argparse.Namespace, progress: Progress, stop: threading.Event
) -> StandaloneFetch | SequentialFetch:
    """Return a parallel download, or a sequential one if the volume has no hard links. Raises StoreFailure."""
    limiter, revision = RateLimiter(options.limit), str(options.revision)
    if can_link(options.to):
        return StandaloneFetch(source, plain_directory(options.to), _CONCURRENCY, progress, stop, limiter, revision)
    return SequentialFetch(source, options.to, _CONCURRENCY, progress, stop, limiter, revision)


def _report_of(outcome: Outcome) -> DownloadReport:
    manifest = outcome.manifest
    reused = max(manifest.size_bytes - outcome.received_bytes, 0)
    return DownloadReport(revision=manifest.revision, downloaded_bytes=outcome.received_bytes, reused_bytes=reused)


def _settings(environ: Mapping[str, str], endpoint: str) -> SourceSettings:
    """Return the settings, without the administrator's S3 endpoint if the model names another."""
    settings = settings_from_environ(environ)
    return settings if endpoint.rstrip("/") in ("", settings.s3_endpoint) else replace(settings, s3_endpoint="")


def _credentials(directory: Path | None, hosts: Sequence[str], endpoint: str) -> Credentials:
    """Return the values of a mounted Secret, and the endpoint; kubelet's own files in it begin with two dots."""
    values = {ENDPOINT_KEY: endpoint} if endpoint else dict[str, str]()
    if directory is None:
        return Credentials(values, tuple(hosts))
    with translated(f"reading {directory}"):
        for path in directory.iterdir():
            if not path.name.startswith(".."):
                with path.open("rb") as file:
                    values[path.name] = file.read(_LONGEST_VALUE_BYTES).decode(errors="replace")
    return Credentials(values, tuple(hosts))


def _mark_completed(mark: Path, outcome: Outcome, *, is_replaceable: bool) -> None:
    """Record the download as complete, once every file is in place."""
    manifest = outcome.manifest
    content = {
        "uri": manifest.uri,
        "revision": manifest.revision,
        "files": len(manifest.files),
        "size": manifest.size_bytes,
        "verified": outcome.verified,
    }
    draft = mark.with_name(f"{mark.name}.new") if is_replaceable else mark
    with translated(f"writing {mark}"):
        with draft.open("w") as file:
            file.write(json.dumps(content))
            file.flush()
            os.fsync(file.fileno())
        if draft != mark:
            draft.replace(mark)
        with suppress(OSError):  # some file systems cannot sync a directory
            _sync(mark.parent)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
