"""`larder fetch URI --to DIR`: the agent's engine without a cluster."""

import os
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from agent.cli.job import FetchJob, Outcome
from agent.cli.report import Reporter
from agent.cli.result import json_report, text_report
from agent.cli.selected import SelectedSource
from agent.cli.target import HOLDER
from agent.cli.watch import Watch
from agent.store.disk import translated
from agent.store.lock import lock_directory
from agent.transfer.engine import Stopped
from agent.transfer.progress import Progress
from shared.exits import INTERRUPTED, begin, failure_line, tell
from shared.selection.choice import WHOLE, Selection
from shared.selection.left_out import left_out_words
from shared.sources.at_hand import LOOK_S, OpenSource, open_at_hand
from shared.sources.port import Source
from shared.sources.registry import open_source


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
) -> int:
    """Put the model's files directly under `to`; return 0, or 1 after one line `Reason: message` on stderr.

    130 where `stop` ended it: the same command goes on from the verified bytes. What is complete and right there is
    not fetched again. What was left out is named on stderr; with `as_json`, stdout has one object and nothing else.
    What cannot succeed ends within a minute; a source that asks for time gets it for a while.
    """
    stop = stop or threading.Event()
    try:
        source = SelectedSource(open_at_hand(uri, environ, opener), selection)
        try:
            reporter = Reporter(stderr if as_json else stdout, quiet=quiet)
            outcome = _fetch_locked(source, to, concurrency, reporter, stop)
        finally:
            source.close()
    except Stopped:
        tell("Stopped: what is verified is kept; the same command goes on from there", stderr)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told in one line
        tell(failure_line(error), stderr)
        return 1
    left_out = source.left_out
    if as_json:
        tell(json_report(outcome, to, left_out), stdout)
    elif not quiet:
        tell(text_report(outcome, to, left_out), stdout)
        if left_out.files:
            tell(left_out_words(left_out, most_names=len(left_out.names)), stderr)
    return 0


def _fetch_locked(source: Source, to: Path, concurrency: int, report: Reporter, stop: threading.Event) -> Outcome:
    with translated(f"opening {to}"):
        to.mkdir(parents=True, exist_ok=True)
        target = to.resolve()
        lock = lock_directory(target, target / HOLDER)
    try:
        return _watch(FetchJob(source, target, concurrency, Progress(), stop), report)
    finally:
        with suppress(OSError):  # of a disk that fails, the failure itself is told
            (target / HOLDER).unlink(missing_ok=True)
        os.close(lock)


def _watch(job: FetchJob, report: Reporter) -> Outcome:
    """Run the job on a thread of its own, so that a server that hangs cannot keep us; tell how it goes."""
    outcome = begin(job.run, "larder-fetch-job")
    watch = Watch(job.progress, time.monotonic())
    while not _ended(outcome, LOOK_S):
        report.show(job.progress, time.monotonic())
        if hopeless := watch.look(time.monotonic()):
            job.stop.set()
            _ended(outcome, 1.0)
            raise hopeless
        if job.stop.is_set() and not _ended(outcome, 1.0):
            raise Stopped
    report.end()
    return outcome.result()


def _ended(outcome: Future[Outcome], within_s: float) -> bool:
    return bool(wait([outcome], within_s).done)
