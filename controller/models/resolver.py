"""Resolves sources to lists of files, and remembers each answer or failure."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import structlog

from controller.models.view import Obstacle, ResolverAnswer
from controller.placement.demand import Demand, Resolution
from controller.sources.credentials import Secrets
from controller.sources.fair_slots import FairSlots
from controller.sources.manifests import Manifests
from controller.state.keys import ModelKey
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

_SOON, _LATE = (1.0, 300.0), (60.0, 1800.0)  # the first and the longest delay
_SETTLE_S, _SETTLE_CAP_S = 10.0, 300.0  # limits how often a constantly changing source is asked
_AT_ONE_TIME = 6
_TAKEN_S = 5.0  # retry interval while a foreign ConfigMap has the name of ours
_NO_ROOM_S = 60.0
_ATTEMPT = " (attempt {}; the next is at {})"
_WHEN = "%Y-%m-%d %H:%M:%S UTC"
Question = tuple[str, str, str]  # the object's uid, its source, and the key of its selection of files
Wish = tuple[int, str]  # generation and requested refresh: the failure of one does not delay another
_log = structlog.get_logger()


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The last attempt for one generation and refresh of one object; times are on the resolver's clock.

    `settle_s` is how long the answer was expected to stand.
    """

    wish: Wish
    trouble: Obstacle | None
    failures: int
    not_before: float
    settle_s: float = 0.0


@dataclass(slots=True)
class Resolver:
    """Resolves outside the queue, because sources may be slow; `on_done` receives the key after an answer or a failure.

    A failure is kept until its retry is due, the object changes, or somebody requests a refresh. Namespaces take turns,
    and each may resolve `per_minute` times a minute (0: no limit).
    """

    secrets: Secrets
    manifests: Manifests
    settings: SourceSettings
    clock: Callable[[], float]
    on_done: Callable[[ModelKey], None]
    uniform: Uniform = random.uniform
    per_minute: int = 0
    now: Callable[[], datetime] = _utc_now
    _attempts: dict[str, Attempt] = field(default_factory=dict, init=False)
    _answers: dict[str, ResolverAnswer] = field(default_factory=dict, init=False)
    # by uid, the digest whose ConfigMap name is taken by a foreign object
    _taken: dict[str, str] = field(default_factory=dict, init=False)
    _running: dict[Question, asyncio.Task[None]] = field(default_factory=dict, init=False)
    _asking: set[Question] = field(default_factory=set, init=False)
    _gone: set[Question] = field(default_factory=set, init=False)  # running for objects that have been deleted
    _slots: FairSlots = field(init=False)

    def __post_init__(self) -> None:
        self._slots = FairSlots(_AT_ONE_TIME, self.clock, self.per_minute)

    def failure_of(self, uid: str, generation: int, refresh: str = "") -> Obstacle | None:
        """Return why the last attempt for this generation and refresh failed, or None."""
        last = self._attempts.get(uid)
        return last.trouble if last and last.wish == (generation, refresh) else None

    def wait_s(self, uid: str, generation: int, refresh: str = "") -> float:
        """Return the seconds until this generation and refresh may be tried (again); 0 means now."""
        last = self._attempts.get(uid)
        return max(0.0, last.not_before - self.clock()) if last and last.wish == (generation, refresh) else 0.0

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
        self._taken.pop(uid, None)
        self._withdraw(uid)
        self._gone |= {run for run in self._asking if run[0] == uid}

    def start(self, key: ModelKey, demand: Demand, generation: int) -> None:
        """Resolve the source of a demand; a refresh requested while that runs is resolved afterwards."""
        run, wish = (demand.uid, demand.uri, demand.selection.key), (generation, demand.refresh)
        if run in self._running:
            return
        self._withdraw(demand.uid)
        if wait_s := self._slots.wait_s(demand.namespace):
            self._hold_up(demand, wish, wait_s)
            self.on_done(key)
        task = self._running[run] = asyncio.create_task(self._ask(run, demand, wish))
        task.add_done_callback(lambda _: self._done(run, key))

    async def upstream_of(self, demand: Demand) -> str:
        """Return the revision that a demand's source has now, without keeping it. Raises LarderError, KubeError."""
        credentials = await self.secrets.credentials_of(demand)
        return demand.selection.revision_of(await run_in_daemon_thread(self._look, demand.uri, credentials))

    async def stop(self) -> None:
        """Cancel everything that runs, because another replica may lead from now on."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _withdraw(self, uid: str) -> None:
        """Drop an object's queued requests that have not started."""
        for run, task in self._running.items():
            if run[0] == uid and run not in self._asking:
                task.cancel()

    def _hold_up(self, demand: Demand, wish: Wish, wait_s: float) -> None:
        error = TooManyResolutions(
            f"namespace {demand.namespace} has had the {self.per_minute} resolutions a minute that it may have; "
            f"the source of this model is asked at about {self._when(wait_s)}"
        )
        last = self._attempts.get(demand.uid)
        failures = last.failures if last and last.wish == wish else 0
        trouble = Obstacle(error.reason, str(error), error.retryable)
        self._attempts[demand.uid] = Attempt(wish, trouble, failures, self.clock())

    def _when(self, wait_s: float) -> str:
        return (self.now() + timedelta(seconds=wait_s)).strftime(_WHEN)

    def _done(self, run: Question, key: ModelKey) -> None:
        self._running.pop(run, None)
        self._asking.discard(run)
        if run in self._gone:
            self._gone.discard(run)
            self.forget(run[0])
        self.on_done(key)

    async def _ask(self, run: Question, demand: Demand, wish: Wish) -> None:
        try:
            async with self._slots.slot(demand.namespace):
                self._asking.add(run)
                answer = await self._resolve(demand)
        except LarderError as error:
            _log.warning("source_unresolved", model=demand.id, uri=demand.uri, reason=error.reason)
            self._remember(demand.uid, wish, error)
        except Exception as error:  # noqa: BLE001 - a source with a malformed answer must only affect its own model
            _log.exception("source_unresolved", model=demand.id, uri=demand.uri)
            words = (
                f"the answer of {demand.uri} could not be used ({type(error).__name__}); the controller's log has more"
            )
            self._remember(demand.uid, wish, Unreachable(words))
        else:
            self._answers[demand.uid] = ResolverAnswer(answer, demand.refresh)
            settle_s = self._settle_s(demand.uid, wish)
            self._attempts[demand.uid] = Attempt(wish, None, 0, self.clock() + settle_s, settle_s)

    def _settle_s(self, uid: str, wish: Wish) -> float:
        """Return how long an answer should stand: doubled each time the source moved again too soon.

        Replicas behind one name may serve different versions of a file forever.
        """
        last = self._attempts.get(uid)
        if last is None or last.wish != wish or self.clock() >= last.not_before + last.settle_s:
            return _SETTLE_S
        return max(_SETTLE_S, min(_SETTLE_CAP_S, 2 * last.settle_s))

    async def _resolve(self, demand: Demand) -> Resolution:
        if taken := self._taken.get(demand.uid):
            await self.manifests.require_own(taken)  # the source is not asked while the name is taken
        credentials = await self.secrets.credentials_of(demand)
        listing, manifest, left_out = await run_in_daemon_thread(self._list, demand.uri, demand.selection, credentials)
        try:
            digest = await self.manifests.store(manifest, listing, demand.namespace)
        except NameConflict as error:
            self._taken[demand.uid] = error.digest
            raise
        self._taken.pop(demand.uid, None)
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

    def _look(self, uri: str, credentials: Credentials) -> str:
        source = open_source(parse_uri(uri), credentials, self.settings)
        try:
            return source.revision() if isinstance(source, Probe) else source.resolve().revision
        finally:
            source.close()

    def _remember(self, uid: str, wish: Wish, error: LarderError) -> None:
        last = self._attempts.get(uid)
        failures = last.failures + 1 if last and last.wish == wish else 1
        delay_s = self._delay_s(error, failures)
        attempt = "" if isinstance(error, NameConflict) else _ATTEMPT.format(failures, self._when(delay_s))
        words = f"{error}{attempt}"
        trouble = Obstacle(error.reason, words, error.retryable)
        self._attempts[uid] = Attempt(wish, trouble, failures, self.clock() + delay_s)

    def _delay_s(self, error: LarderError, failures: int) -> float:
        match error:
            case RateLimited(after_s=after_s):
                return Backoff(*_SOON, self.uniform).delay_s(1, after_s)  # the server chose the delay
            case NameConflict():
                return _TAKEN_S
            case TooManyManifests():
                return Backoff(_NO_ROOM_S, _NO_ROOM_S, self.uniform).delay_s(failures)
        return Backoff(*(_SOON if error.retryable else _LATE), self.uniform).delay_s(failures)
