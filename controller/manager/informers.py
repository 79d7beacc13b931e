"""Runs the informers of all controllers."""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from controller.manager.metrics import Metrics
from controller.state.informer import Informer
from controller.state.kinds.crds import Definitions
from shared.backoff import Backoff
from shared.internal_errors import keep_running
from shared.kube.errors import NotFound
from shared.kube.reflector import Reflector, ReflectorTiming
from shared.kube.transport import Kube

_OPTIONAL_TIMING = ReflectorTiming(backoff=Backoff(first_s=0.1, cap_s=15))  # an upgrade may grant missing permissions
_log = structlog.get_logger()


@dataclass(slots=True)
class Informers:
    """Keeps every sink in sync with its collection."""

    kube: Kube
    definitions: Definitions
    metrics: Metrics
    _reflectors: list[tuple[Informer[Any], Reflector[Any]]] = field(default_factory=list, init=False)

    def add(self, informer: Informer[Any]) -> None:
        """Add an informer; call before `run`."""
        if informer.definition is not None:
            self.definitions.add(informer.definition)
        reflector = Reflector(
            self.kube,
            informer.path,
            informer.kind,
            informer.sink,
            lambda error, wait_s: self._report(informer, error, wait_s),
            label_selector=informer.label_selector,
            field_selector=informer.field_selector,
            timing=_OPTIONAL_TIMING if informer.may_be_absent or not informer.waited_for else ReflectorTiming(),
        )
        self._reflectors.append((informer, reflector))

    async def run(self) -> None:
        """Run all informers until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(keep_running("definitions", self.definitions.run, self.metrics.internal_errors))
            for pair in self._reflectors:
                tasks.create_task(
                    keep_running("watch", partial(self._run_reflector, *pair), self.metrics.internal_errors)
                )

    async def _run_reflector(self, informer: Informer[Any], reflector: Reflector[Any]) -> None:
        """Start the reflector once the kind has a definition; before that it cannot have any objects."""
        if informer.definition is not None:
            served = self.definitions.served[informer.definition.kind]
            await self.definitions.synced.wait()
            if not served.is_set():
                reflector.synced.set()
                await served.wait()
        await reflector.run()

    async def synced(self) -> None:
        """Wait until every list that decisions need has been read, and the owner of every kind is known."""
        await asyncio.gather(*(event.wait() for event in self._events()))

    @property
    def is_synced(self) -> bool:
        """Whether every list that decisions need has been read, and the owner of every kind is known."""
        return all(event.is_set() for event in self._events())

    def _events(self) -> list[asyncio.Event]:
        lists = [reflector.synced for informer, reflector in self._reflectors if informer.waited_for]
        return [self.definitions.synced, *lists]

    def _report(self, informer: Informer[Any], error: Exception, wait_s: float) -> None:
        if informer.may_be_absent and isinstance(error, NotFound):
            self._report_absent(informer)
            return
        self.metrics.watch_restarts.labels(informer.resource).inc()
        _log.info("watch_interrupted", resource=informer.resource, error=str(error), wait_s=round(wait_s, 2))

    def _report_absent(self, informer: Informer[Any]) -> None:
        """Treat the collection as empty, and log that once."""
        informer.sink.replace((), ())
        for known, reflector in self._reflectors:
            if known is informer and not reflector.synced.is_set():
                _log.warning("kind_not_served", resource=informer.resource, path=informer.path)
                reflector.synced.set()
