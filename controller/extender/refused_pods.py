"""Wakes pods that were refused before this replica had seen a change.

A change wakes the pods that wait in kube-scheduler, sometimes before our own watch delivers it. A pod refused at that
moment would wait for another change, or for the scheduler's own flush after five minutes. So each replica remembers
which pods it refused. If it then learns that devices are free, and the scheduler does not ask again on its own, the
replica writes an object that kube-scheduler watches. That wakes the pods. It also does so once after it starts, for
pods that an earlier replica refused, and when it stops calling a plugin that may have refused some.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from shared.backoff import Backoff
from shared.internal_errors import InternalErrors, keep_running
from shared.kube.edit import merge_patch
from shared.kube.errors import KubeError
from shared.kube.transport import Kube

WAKE_UP = "larder-devices"
FREED_ANNOTATION = "larder.dev/devices-freed"
_LONGEST_LAG_S = 300.0  # of a watch; after that, the scheduler asks again by itself
_UNASKED_S = 1.0  # a scheduler that was woken by the change itself asks sooner
_MAX_PODS = 10_000
_ATTEMPTS = 8
_PAUSE = Backoff(first_s=1, cap_s=10)  # between attempts: about 40 s in all
_log = structlog.get_logger("extender")


def wake_up_path(namespace: str) -> str:
    """Return the path of the object that wakes pods; it describes no real storage (docs/adr/0041)."""
    return f"/apis/storage.k8s.io/v1/namespaces/{namespace}/csistoragecapacities/{WAKE_UP}"


@dataclass(slots=True)
class RefusedPods:
    """The pods that were refused within five minutes, and when the scheduler asked, in seconds of the clock."""

    _asked_s: dict[str, float] = field(default_factory=dict, init=False)  # by uid, about oldest first

    def add(self, uid: str, asked_s: float) -> None:
        """Record that a pod was or may be refused; `asked_s` is when the request arrived."""
        self._asked_s.pop(uid, None)
        self._asked_s[uid] = asked_s
        if len(self._asked_s) > _MAX_PODS:
            del self._asked_s[next(iter(self._asked_s))]

    def remove(self, uid: str) -> None:
        """Forget a pod that fits on some node."""
        self._asked_s.pop(uid, None)

    def any_before(self, moment_s: float) -> bool:
        """Return whether a pod was refused shortly before a change that the scheduler may already have seen."""
        self._keep(lambda asked_s: asked_s > moment_s - _LONGEST_LAG_S)
        return any(asked_s <= moment_s for asked_s in self._asked_s.values())

    def remove_before(self, moment_s: float) -> None:
        """Forget the pods that were refused before a change."""
        self._keep(lambda asked_s: asked_s > moment_s)

    def _keep(self, is_kept: Callable[[float], bool]) -> None:
        self._asked_s = {uid: asked_s for uid, asked_s in self._asked_s.items() if is_kept(asked_s)}


class SchedulerWaker:
    """Wakes refused pods when devices become free, at most once a second, unless the scheduler asks by itself.

    After the start, the first devices that appear or become free wake them in any case.

    Args:
        kube: The connection.
        namespace: The release namespace, where the object is.
        refused: The pods that this replica refused.
        clock: Monotonic seconds.
        now: The current UTC time, for the annotation.
        errors: Receives unexpected errors.
        sleep: Waits.

    """

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        refused: RefusedPods,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        errors: InternalErrors,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._kube, self._path, self._refused = kube, wake_up_path(namespace), refused
        self._clock, self._now, self._errors, self._sleep = clock, now, errors, sleep
        self._freed_s = 0.0
        self._others_refused = True  # by an earlier replica or a dropped plugin, so not in `refused`
        self._task: asyncio.Task[None] | None = None

    def devices_freed(self, _node: str) -> None:
        """Record that a node got new devices, or that a pod released some."""
        self._freed_s = self._clock()
        if (self._task is None or self._task.done()) and self._any_before(self._freed_s):
            self._task = asyncio.create_task(keep_running("scheduler_waker", self._wake, self._errors))

    def plugin_dropped(self) -> None:
        """Record that a plugin is no longer called; it may have refused pods at any time."""
        self._others_refused = True
        self.devices_freed("")

    def _any_before(self, moment_s: float) -> bool:
        return self._others_refused or self._refused.any_before(moment_s)

    async def _wake(self) -> None:
        failures = 0
        while failures < _ATTEMPTS and self._any_before(freed_s := self._freed_s):
            await self._sleep(_PAUSE.delay_s(failures) if failures else _UNASKED_S)
            if not self._any_before(freed_s):
                continue
            others_refused, self._others_refused = self._others_refused, False
            try:
                annotations = {FREED_ANNOTATION: self._now().isoformat()}
                await merge_patch(self._kube, self._path, {"metadata": {"annotations": annotations}})
            except KubeError as error:
                failures += 1
                self._others_refused |= others_refused
                hint = "refused pods may wait up to five minutes; if the object is missing, helm upgrade recreates it"
                _log.warning("scheduler_not_woken", object=self._path, error=str(error), hint=hint)
            else:
                failures = 0
                self._refused.remove_before(freed_s)
