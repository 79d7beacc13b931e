"""Resolves sources to lists of files, and remembers each answer or failure."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import structlog

from controller.manager.controller import QueueKey
from controller.models.view import Obstacle, ResolverAnswer
from controller.placement.demand import Demand, Resolution
from controller.sources.credentials import Secrets
from controller.sources.fair_slots import FairSlots
from controller.sources.manifests import Manifests
from shared.api.meta import LeftOut
from shared.backoff import Backoff, Uniform
from shared.daemon_thread import run_in_daemon_thread
from shared.errors import LarderError, NameConflict, RateLimited, TooManyManifests, TooManyResolutions, Unreachable
from shared.manifest import Manifest
from shared.selection.choice import Selection
from shared.selection.select import select_files
from shared.sources.port import Credentials, Probe
from shared.sources.schemes import open_source
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri

_RETRYABLE_S, _PERMANENT_S = (1.0, 300.0), (60.0, 1800.0)  # first and longest delay after a failure
_SETTLE_S, _SETTLE_CAP_S = 10.0, 300.0  # limits how often a constantly changing source is asked
_MAX_CONCURRENT = 6
_NAME_CONFLICT_S = 5.0  # retry interval while a foreign ConfigMap has the name of ours
_QUOTA_S = 60.0
_ATTEMPT = " (attempt {}; the next is at {})"
_TIME_FORMAT = "%Y-%m-%d %H:%M:%S UTC"
RunKey = tuple[str, str, str]  # the object's uid, its source, and the key of its selection of files
Request = tuple[int, str]  # generation and requested refresh: the failure of one does not delay another
_log = structlog.get_logger()


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The last attempt for one generation and refresh of one object; times are on the resolver's clock.

    `settle_s` is how long the answer was to be kept.
    """

    request: Request
    failure: Obstacle | None
    failures: int
    not_before: float
    settle_s: float = 0.0


@dataclass(slots=True)
class Resolver:
    """Resolves outside the queue, because sources may be slow; `on_done` receives the key after an answer or a failure.

    A failure is kept until its retry is due, the object changes, or a refresh is requested. Namespaces take turns,
    and each may resolve `per_minute` times per minute (0: no limit).
    """

    secrets: Secrets
    manifests: Manifests
    settings: SourceSettings
    clock: Callable[[], float]
    on_done: Callable[[QueueKey], None]
    uniform: Uniform = random.uniform
    per_minute: int = 0
    now: Callable[[], datetime] = _utc_now
    _attempts: dict[str, Attempt] = field(default_factory=dict, init=False)
    _answers: dict[str, ResolverAnswer] = field(default_factory=dict, init=False)
    # by uid, the digest whose ConfigMap name is taken by a foreign object
    _name_conflicts: dict[str, str] = field(default_factory=dict, init=False)
    _running: dict[RunKey, asyncio.Task[None]] = field(default_factory=dict, init=False)
    _started: set[RunKey] = field(default_factory=set, init=False)
    _deleted: set[RunKey] = field(default_factory=set, init=False)  # running for objects that have been deleted
    _slots: FairSlots = field(init=False)

    def __post_init__(self) -> None:
        self._slots = FairSlots(_MAX_CONCURRENT, self.clock, self.per_minute)

    def failure_of(self, uid: str, generation: int, refresh: str = "") -> Obstacle | None:
        """Return why the last attempt for this generation and refresh failed, or None."""
        last = self._attempts.get(uid)
        return last.failure if last and last.request == (generation, refresh) else None

    def wait_s(self, uid: str, generation: int, refresh: str = "") -> float:
        """Return the seconds until the next attempt for this generation and refresh; 0 means now."""
        last = self._attempts.get(uid)
        return max(0.0, last.not_before - self.clock()) if last and last.request == (generation, refresh) else 0.0

    def answer_of(self, uid: str, uri: str, selection: str = "") -> ResolverAnswer | None:
        """Return the answer for this object, source and selection that is not recorded yet, or None."""
        answer = self._answers.get(uid)
        fits = answer and (answer.resolution.uri, answer.resolution.selection) == (uri, selection)
        return answer if fits else None

    def discard_answer(self, uid: str) -> None:
        """Drop an answer that the object's status has recorded."""
        self._answers.pop(uid, None)

    def unrecorded_digests(self) -> frozenset[str]:
        """Return the digests of manifests whose answers no object has recorded yet."""
        return frozenset(answer.resolution.manifest for answer in self._answers.values())

    def discard_answers(self) -> None:
        """Drop all unrecorded answers, because another replica has led meanwhile."""
        self._answers.clear()

    def forget(self, uid: str) -> None:
        """Drop the state of a deleted object."""
        self._attempts.pop(uid, None)
        self._answers.pop(uid, None)
        self._name_conflicts.pop(uid, None)
        self._cancel_queued(uid)
        self._deleted |= {run for run in self._started if run[0] == uid}

    def start(self, key: QueueKey, demand: Demand, generation: int) -> None:
        """Resolve a source in the background; a refresh requested while that runs is resolved afterwards.

        Args:
            key: Reconciled again when there is an answer, or a failure.
            demand: What the object asks for.
            generation: The generation of the object.
        """
        run, request = (demand.uid, demand.uri, demand.selection.key), (generation, demand.refresh)
        if run in self._running:
            return
        self._cancel_queued(demand.uid)
        if wait_s := self._slots.wait_s(demand.namespace):
            self._report_rate_limit(demand, request, wait_s)
            self.on_done(key)
        task = self._running[run] = asyncio.create_task(self._run(run, demand, request))
        task.add_done_callback(lambda _: self._done(run, key))

    async def read_upstream_revision(self, demand: Demand) -> str:
        """Return the revision that a demand's source has now, without keeping it. Raises LarderError, KubeError."""
        credentials = await self.secrets.credentials_of(demand)
        return demand.selection.revision_of(await run_in_daemon_thread(self._read_revision, demand.uri, credentials))

    async def stop(self) -> None:
        """Cancel everything that runs, because another replica may lead from now on."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _cancel_queued(self, uid: str) -> None:
        """Drop an object's queued requests that have not started."""
        for run, task in self._running.items():
            if run[0] == uid and run not in self._started:
                task.cancel()

    def _report_rate_limit(self, demand: Demand, request: Request, wait_s: float) -> None:
        error = TooManyResolutions(
            f"namespace {demand.namespace} has reached its limit of {self.per_minute} resolutions per minute; "
            f"this model is resolved at about {self._format_time(wait_s)}"
        )
        last = self._attempts.get(demand.uid)
        failures = last.failures if last and last.request == request else 0
        failure = Obstacle(error.reason, str(error), error.retryable)
        self._attempts[demand.uid] = Attempt(request, failure, failures, self.clock())

    def _format_time(self, wait_s: float) -> str:
        return (self.now() + timedelta(seconds=wait_s)).strftime(_TIME_FORMAT)

    def _done(self, run: RunKey, key: QueueKey) -> None:
        self._running.pop(run, None)
        self._started.discard(run)
        if run in self._deleted:
            self._deleted.discard(run)
            self.forget(run[0])
        self.on_done(key)

    async def _run(self, run: RunKey, demand: Demand, request: Request) -> None:
        try:
            async with self._slots.slot(demand.namespace):
                self._started.add(run)
                resolution = await self._resolve(demand)
        except LarderError as error:
            _log.warning("source_unresolved", model=demand.id, uri=demand.uri, reason=error.reason)
            self._record_failure(demand.uid, request, error)
        except Exception as error:  # noqa: BLE001 - a source with a malformed answer must only affect its own model
            _log.exception("source_unresolved", model=demand.id, uri=demand.uri)
            message = (
                f"{demand.uri} returned an unusable answer ({type(error).__name__}); the controller's log has more"
            )
            self._record_failure(demand.uid, request, Unreachable(message))
        else:
            self._answers[demand.uid] = ResolverAnswer(resolution, demand.refresh)
            settle_s = self._settle_s(demand.uid, request)
            self._attempts[demand.uid] = Attempt(request, None, 0, self.clock() + settle_s, settle_s)

    def _settle_s(self, uid: str, request: Request) -> float:
        """Return how long to keep an answer: doubled each time the source changes again too soon.

        Replicas behind one name may serve different versions of a file forever.
        """
        last = self._attempts.get(uid)
        if last is None or last.request != request or self.clock() >= last.not_before + last.settle_s:
            return _SETTLE_S
        return max(_SETTLE_S, min(_SETTLE_CAP_S, 2 * last.settle_s))

    async def _resolve(self, demand: Demand) -> Resolution:
        if digest := self._name_conflicts.get(demand.uid):
            await self.manifests.require_own(digest)  # do not query the source while the name is taken
        credentials = await self.secrets.credentials_of(demand)
        listing, manifest, left_out = await run_in_daemon_thread(self._list, demand.uri, demand.selection, credentials)
        try:
            digest = await self.manifests.store(manifest, listing, demand.namespace)
        except NameConflict as error:
            self._name_conflicts[demand.uid] = error.digest
            raise
        self._name_conflicts.pop(demand.uid, None)
        return Resolution(
            demand.uri,
            manifest.revision,
            digest,
            manifest.size_bytes,
            len(manifest.files),
            demand.selection.key,
            left_out if left_out.files else None,
        )

    def _list(self, uri: str, selection: Selection, credentials: Credentials) -> tuple[Manifest, Manifest, LeftOut]:
        """Return the source's full list of files, the selected files, and what was left out."""
        source = open_source(parse_uri(uri), credentials, self.settings)
        try:
            listing = source.resolve()
            return listing, *select_files(listing, selection)
        finally:
            source.close()

    def _read_revision(self, uri: str, credentials: Credentials) -> str:
        source = open_source(parse_uri(uri), credentials, self.settings)
        try:
            return source.revision() if isinstance(source, Probe) else source.resolve().revision
        finally:
            source.close()

    def _record_failure(self, uid: str, request: Request, error: LarderError) -> None:
        last = self._attempts.get(uid)
        failures = last.failures + 1 if last and last.request == request else 1
        delay_s = self._delay_s(error, failures)
        attempt = "" if isinstance(error, NameConflict) else _ATTEMPT.format(failures, self._format_time(delay_s))
        failure = Obstacle(error.reason, f"{error}{attempt}", error.retryable)
        self._attempts[uid] = Attempt(request, failure, failures, self.clock() + delay_s)

    def _delay_s(self, error: LarderError, failures: int) -> float:
        match error:
            case RateLimited(after_s=after_s):
                return Backoff(*_RETRYABLE_S, self.uniform).delay_s(1, after_s)  # the server chose the delay
            case NameConflict():
                return _NAME_CONFLICT_S
            case TooManyManifests():
                return Backoff(_QUOTA_S, _QUOTA_S, self.uniform).delay_s(failures)
        return Backoff(*(_RETRYABLE_S if error.retryable else _PERMANENT_S), self.uniform).delay_s(failures)
