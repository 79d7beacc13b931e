"""Watches models, and prints a line for each visible change."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from controller.cli.status.observe import VisibleModels
from controller.cli.status.report import ModelReport, ObservedModel, on_node, report_of
from controller.cli.status.show import Writer
from shared.api.kinds import Definition
from shared.exit_codes import failure_line
from shared.kube.cache import Cache
from shared.kube.reflector import Reflector
from shared.kube.transport import Kube

_GONE = "Gone"  # deleted from the cluster, or removed from the requested node


async def follow(kube: Kube, visible: VisibleModels, writer: Writer, node: str) -> None:
    """Print the models, then each change, until cancelled. Raises BrokenPipeError if the reader has closed the pipe."""
    tracker = _ModelTracker(writer, node)
    async with _watching(kube, visible, tracker):
        writer.show(sorted(tracker.known.values(), key=lambda r: r.model))
        while True:
            writer.show_change(await tracker.changes.get())


@asynccontextmanager
async def _watching(kube: Kube, visible: VisibleModels, tracker: "_ModelTracker") -> AsyncIterator[None]:
    """Fill `tracker` from one watch per collection while the block runs, which starts with complete lists."""
    reflectors = [
        Reflector(kube, listing.path, ObservedModel, tracker.sink(listing.definition), tracker.report_error)
        for listing in visible.listings
    ]
    tasks = [asyncio.create_task(reflector.run()) for reflector in reflectors]
    try:
        for reflector in reflectors:
            await reflector.synced.wait()
        tracker.started = True
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(slots=True)
class _ModelTracker:
    """The known state of each model, and the changes that have not been printed yet."""

    writer: Writer
    node: str
    started: bool = False
    known: dict[tuple[str, str], ModelReport] = field(default_factory=dict)
    changes: "asyncio.Queue[ModelReport]" = field(default_factory=asyncio.Queue)
    _last_error: str = ""

    def sink(self, definition: Definition) -> Cache[ObservedModel]:
        """Return the sink for objects of one kind."""
        return Cache(lambda before, after: self._note(definition, before, after))

    def report_error(self, error: Exception, _: float) -> None:
        """Report once that the cluster does not answer."""
        line = failure_line(error)
        if line != self._last_error:
            sys.stderr.write(f"{line}; the output may be out of date until the cluster answers again\n")
        self._last_error = line

    def _note(self, definition: Definition, before: ObservedModel | None, after: ObservedModel | None) -> None:
        self._last_error = ""
        model = after or before
        report = report_of(definition, model) if model else None
        if report is None:
            return
        key = report.resource, report.namespace
        here = on_node([report], self.node) if self.node else [report]
        if after is None or not here:
            gone = self.known.pop(key, None)
            self._queue(msgspec.structs.replace(gone, state=_GONE) if gone else None)
            return
        last, self.known[key] = self.known.get(key), here[0]
        if last is None or self.writer.shown(last) != self.writer.shown(here[0]):
            self._queue(here[0])

    def _queue(self, report: ModelReport | None) -> None:
        if report and self.started:
            self.changes.put_nowait(report)
