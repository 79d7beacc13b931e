"""The thread that decides about devices, so that nothing slow runs on the event loop.

A thread cannot be stopped. If a plugin hangs, its thread is abandoned, and a new one continues without the plugin.
"""

import asyncio
import queue
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

import structlog

from controller.devices.plugin import DeviceScheduler
from controller.extender.accounts import DeviceAccounts, NodeAccount
from controller.extender.evaluator import FitEvaluator
from controller.extender.plugin_watchdog import Abandoned, PluginWatchdog, RunningCall, watched
from shared.daemon_thread import start_daemon_thread
from shared.errors import LarderError

HANGS_S = 0.2
ANSWER_S = 0.35  # below the httpTimeout of the scheduler, 0.5 s
_MAX_WAITING = 64
T = TypeVar("T")
Drop = Callable[[str, str], None]
_log = structlog.get_logger("extender")


class NoAnswerInTime(LarderError):
    """The worker is busy, or a plugin hung; the scheduler tries the pod again."""


class _Thread:
    """One thread with an evaluator of its own."""

    def __init__(
        self, plugins: Sequence[DeviceScheduler], clock: Callable[[], float], known_to_plugins: Sequence[str] = ()
    ) -> None:
        self.watch = PluginWatchdog(clock, _failed)
        self._evaluator = FitEvaluator(watched(plugins, self.watch), clock, known_to_plugins)
        self._waiting: queue.SimpleQueue[Callable[[FitEvaluator], None]] = queue.SimpleQueue()
        start_daemon_thread(self._work, "larder-devices")

    @property
    def queue_length(self) -> int:
        return self._waiting.qsize()

    @property
    def node_names(self) -> list[str]:
        return self._evaluator.node_names

    def submit(self, changes: Mapping[str, NodeAccount | None], work: Callable[[FitEvaluator], T]) -> "Future[T]":
        """Queue a request. Its changes are applied even if it is cancelled, because later requests rely on them."""
        outcome: Future[T] = Future()

        def run(evaluator: FitEvaluator) -> None:
            try:
                try:
                    evaluator.sync(changes)
                finally:
                    is_wanted = outcome.set_running_or_notify_cancel()
                if is_wanted:
                    outcome.set_result(work(evaluator))
            except Exception as error:  # noqa: BLE001 - it is raised again in the caller's task
                if is_wanted:
                    outcome.set_exception(error)

        self._waiting.put(run)
        return outcome

    def _work(self) -> None:
        while not self.watch.abandoned:
            try:
                self._waiting.get()(self._evaluator)
            except Abandoned:
                return


def _failed(plugin: str, error: str) -> None:
    _log.warning("scheduler_plugin_failed", plugin=plugin, error=error)


class DeviceWorker:
    """Runs requests for decisions about devices one after another, each with a time limit.

    Args:
        accounts: The accounts, whose changes the evaluator applies before it answers.
        plugins: The scheduler plugins.
        clock: Monotonic seconds.
        dropped: Called with the name of a plugin that is no longer called, and the reason.

    """

    def __init__(
        self,
        accounts: DeviceAccounts,
        plugins: Sequence[DeviceScheduler],
        clock: Callable[[], float],
        dropped: Drop = lambda *_: None,
    ) -> None:
        self._accounts, self._plugins, self._clock, self._dropped = accounts, list(plugins), clock, dropped
        self._thread = _Thread(self._plugins, clock)
        self._suspect: tuple[RunningCall, float] | None = None  # a call that may hang, and when that was noticed

    async def run(self, work: Callable[[FitEvaluator], T], within_s: float = ANSWER_S) -> T:
        """Return the evaluator's answer, after applying all changes. Raises NoAnswerInTime."""
        thread = self._thread
        if thread.queue_length >= _MAX_WAITING:
            raise NoAnswerInTime(
                f"{_MAX_WAITING} requests for devices are already waiting; the scheduler retries the pod"
            )
        answer = thread.submit(self._accounts.changes(), work)
        try:
            async with asyncio.timeout(within_s):
                return await asyncio.wrap_future(answer)
        except TimeoutError:
            answer.cancel()
            self._check(thread)
            raise NoAnswerInTime(
                f"no decision about devices within {within_s:.2f} s; the scheduler retries the pod"
            ) from None

    def _check(self, thread: _Thread) -> None:
        """If a plugin hangs, continue without it in a new thread.

        A call also seems to hang if the whole program was paused. So a plugin is dropped only if a later request finds
        the same call still running.
        """
        call, now_s = thread.watch.running, self._clock()
        if thread is not self._thread or call is None or now_s - call.began_s < HANGS_S:
            return
        if self._suspect is None or self._suspect[0] is not call:
            self._suspect = call, now_s
        if now_s - self._suspect[1] < HANGS_S:
            return
        name = call.plugin
        thread.watch.abandoned = True
        self._plugins = [plugin for plugin in self._plugins if plugin.name != name]
        reason = f"a call did not return within {now_s - call.began_s:.1f} s"
        _log.error("scheduler_plugin_dropped", plugin=name, reason=reason)
        self._dropped(name, reason)
        self._accounts.mark_all_changed()
        self._thread = _Thread(self._plugins, self._clock, thread.node_names)
