"""`larder fetch URI --to DIR`: the agent's transfer engine without a cluster."""

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TextIO

import msgspec

from agent.cli.layouts import hub_cache, plain_directory
from agent.cli.progress_line import ProgressLine
from agent.cli.stall_watch import StallWatch
from agent.cli.standalone_fetch import Outcome, StandaloneFetch
from agent.cli.target import HOLDER
from agent.linux.flock import lock_directory, unlock
from agent.store.disk import translated
from agent.transfer.progress import Progress
from agent.transfer.receive import Stopped
from shared.api.meta import LeftOut
from shared.daemon_thread import start_daemon_thread
from shared.exit_codes import INTERRUPTED, failure_line, write_line
from shared.manifest import File, Manifest
from shared.quantity import format_bytes
from shared.selection.choice import WHOLE, Selection
from shared.selection.left_out import left_out_message
from shared.selection.select import select_files
from shared.sources.for_commands import POLL_INTERVAL_S, open_for_command
from shared.sources.port import Body, Source
from shared.sources.schemes import OpenSource, open_source


@dataclass(slots=True)
class SelectedSource:
    """A source reduced to the selected files; `left_out` describes the others after `resolve`."""

    source: Source
    selection: Selection
    left_out: LeftOut = field(default=LeftOut(), init=False)

    def resolve(self) -> Manifest:
        """See `Source.resolve`. Raises SourceNotFound if no file is left."""
        manifest, self.left_out = select_files(self.source.resolve(), self.selection)
        return manifest

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """See `Source.open`."""
        return self.source.open(file, offset, length)

    def close(self) -> None:
        """See `Source.close`."""
        self.source.close()


def run_fetch(
    uri: str,
    to: Path,
    environ: Mapping[str, str],
    stdout: TextIO,
    stderr: TextIO,
    *,
    concurrency: int = 4,
    quiet: bool = False,
    as_json: bool = False,
    stop: threading.Event | None = None,
    opener: OpenSource = open_source,
    selection: Selection = WHOLE,
    hub_layout: bool = False,
) -> int:
    """Put the model's files directly below `to` or, with `hub_layout`, into the cache of `huggingface_hub` there.

    Files that are already complete and correct are not downloaded again. A download that cannot succeed ends within a
    minute, or later if the source asks for a limited wait. Left-out files are named on stderr; with `as_json`, stdout
    has exactly one object.

    Returns:
        0; 1 after one line `Reason: message` on stderr; or 130 if `stop` ended it, after which the same command
        resumes from the verified bytes.
    """
    stop = stop or threading.Event()
    try:
        layout = hub_cache(uri, to) if hub_layout else plain_directory(to)
        source = SelectedSource(open_for_command(uri, environ, opener), selection)
        try:
            progress_line = ProgressLine(stderr if as_json else stdout, quiet=quiet)
            outcome = fetch_into(StandaloneFetch(source, layout, concurrency, Progress(), stop), progress_line)
        finally:
            source.close()
    except Stopped:
        write_line("Stopped: verified bytes are kept; run the same command again to continue", stderr)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - every failure is reported in one line
        write_line(failure_line(error), stderr)
        return 1
    left_out, directory = source.left_out, layout.directory(outcome.manifest)
    if as_json:
        write_line(_json_report(outcome, directory, left_out), stdout)
    elif not quiet:
        write_line(_text_report(outcome, directory, left_out), stdout)
        if left_out.files:
            write_line(left_out_message(left_out, max_names=len(left_out.names)), stderr)
    return 0


def fetch_into(task: StandaloneFetch, progress_line: ProgressLine) -> Outcome:
    """Fetch into the target, which is locked meanwhile, and show the progress. Raises LarderError, Stopped."""
    target = task.layout.target
    with translated(f"opening {target}"):
        target.mkdir(parents=True, exist_ok=True)
        lock = lock_directory(target, target / HOLDER)
    try:
        return run_with_progress(task, progress_line)
    finally:
        with suppress(OSError):  # on a failing disk, report the original failure
            (target / HOLDER).unlink(missing_ok=True)
        unlock(lock)


class FetchTask(Protocol):
    """A download that can be watched and stopped."""

    @property
    def progress(self) -> Progress:
        """The counters of the download."""

    @property
    def stop(self) -> threading.Event:
        """Ends the download within a second once set."""

    def run(self) -> Outcome:
        """Fetch the files.

        Returns:
            What was fetched.

        Raises:
            LarderError: The fetch failed.
            Stopped: `stop` was set.
        """


def run_with_progress(task: FetchTask, progress_line: ProgressLine) -> Outcome:
    """Run a fetch in its own thread, so that a hanging server cannot block the command, and show its progress."""
    outcome = start_daemon_thread(task.run, "larder-fetch-job")
    watch = StallWatch(task.progress, time.monotonic())
    while not _ended(outcome, POLL_INTERVAL_S):
        progress_line.show(task.progress, time.monotonic())
        if failure := watch.check(time.monotonic()):
            task.stop.set()
            _ended(outcome, 1.0)
            raise failure
        if task.stop.is_set() and not _ended(outcome, 1.0):
            raise Stopped
    progress_line.end()
    return outcome.result()


def _ended(outcome: Future[Outcome], within_s: float) -> bool:
    return bool(wait([outcome], within_s).done)


def _text_report(outcome: Outcome, to: Path, left_out: LeftOut) -> str:
    """Return one line for people."""
    manifest = outcome.manifest
    left = f", {left_out.files} files with {format_bytes(left_out.size)} left out" if left_out.files else ""
    return (
        f"{to}: {len(manifest.files)} files, {format_bytes(manifest.size_bytes)} from {manifest.uri}, "
        f"{format_bytes(outcome.received_bytes)} downloaded, verified by {outcome.verified}{left}"
    )


def _json_report(outcome: Outcome, to: Path, left_out: LeftOut) -> str:
    """Return one object for programs; sizes are in bytes, `leftOut` has the form of a model's status."""
    manifest = outcome.manifest
    report = {
        "directory": str(to),
        "uri": manifest.uri,
        "revision": manifest.revision,
        "files": len(manifest.files),
        "size": manifest.size_bytes,
        "fetched": outcome.received_bytes,
        "verified": outcome.verified,
        "leftOut": left_out,
    }
    return msgspec.json.encode(report).decode()
