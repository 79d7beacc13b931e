"""Reconciles the pods of a namespace that wait for a snapshot: observe, decide, act."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import assert_never

import structlog

from controller.manager.actions import Requeue
from controller.manager.pod_events import MAX_PODS, PodEvents
from controller.waiting_pods.act import REASON, WaitingPodsActor
from controller.waiting_pods.decide import HERE, Action, FailPod, RemoveGate, ReportOnPods, decide
from controller.waiting_pods.keys import WaitingKey
from controller.waiting_pods.observe import WaitingPodsObserver
from controller.waiting_pods.state_metrics import WaitingPodsMetrics
from shared.api.core import Pod
from shared.kube.errors import Refused

_BACKOFF = timedelta(seconds=50)  # shorter than the delay until the next run
_PAUSE = timedelta(seconds=10)
_log = structlog.get_logger()


@dataclass(slots=True)
class WaitingPodsReconciler:
    """Follows the pods of a namespace that were given a snapshot until they start."""

    observer: WaitingPodsObserver
    actor: WaitingPodsActor
    pod_events: PodEvents
    metrics: WaitingPodsMetrics
    now: Callable[[], datetime]
    _backoff_until: dict[WaitingKey, dict[str, datetime]] = field(default_factory=dict, init=False)  # by uid of the pod
    _ended: dict[WaitingKey, datetime] = field(default_factory=dict, init=False)  # when a pod was last ended
    _reported: dict[WaitingKey, set[str]] = field(default_factory=dict, init=False)  # the uids of pods with an Event

    async def reconcile(self, key: WaitingKey) -> float | None:
        """Reconcile the pods of a key; return the delay in seconds until the next run, or None."""
        view = await self.observer.view(key, self._reported.get(key, ()), self._recently_failed_uids(key))
        self.metrics.note(view)
        if not view.pods:
            self._forget(key)
            return None
        self._reported[key] = self._reported.get(key, set()) & {waiting.pod.metadata.uid for waiting in view.pods}
        actions = decide(replace(view, paused=self._pauses(key)))
        for action in actions:
            await self._apply(key, action)
        return min((action.after_s for action in actions if isinstance(action, Requeue)), default=None)

    async def stop(self) -> None:
        """Drop the state of this leadership."""
        self.metrics.clear()
        for known in (self._reported, self._backoff_until, self._ended):
            known.clear()

    def _forget(self, key: WaitingKey) -> None:
        self._reported.pop(key, None)
        self._backoff_until.pop(key, None)
        self.pod_events.forget(key)
        self.observer.forget(key)

    async def _apply(self, key: WaitingKey, action: Action) -> None:
        match action:
            case RemoveGate() | FailPod():
                await self._change(key, action)
            case ReportOnPods():
                await self._report(key, action)
            case Requeue():
                pass  # done by the caller
            case _:
                assert_never(action)

    async def _change(self, key: WaitingKey, action: RemoveGate | FailPod) -> None:
        """Change one pod. If it cannot be changed, for example because of a policy, the others are not delayed."""
        about = {"namespace": key.namespace, "pod": action.pod.metadata.name, "model": key.id}
        try:
            if isinstance(action, RemoveGate):
                if await self.actor.remove_gate(action.pod):
                    _log.info("gate_removed", **about)
            elif await self.actor.fail(action.pod, key, action.message, self.now()):
                self._ended[key] = self.now()
                _log.info("pod_failed", **about)
                await self.pod_events.report(key, (action.pod,), REASON, action.message)
            else:
                self._back_off(key, action.pod)
        except Refused as error:
            _log.warning("pod_not_changed", **about, error=str(error))
            self._back_off(key, action.pod)

    def _pauses(self, key: WaitingKey) -> bool:
        """Return whether pods of this key were ended just now: a ReplicaSet replaces each of them at once."""
        self._ended = {ended: at for ended, at in self._ended.items() if self.now() - at < _PAUSE}
        return key in self._ended

    def _back_off(self, key: WaitingKey, pod: Pod) -> None:
        self._backoff_until.setdefault(key, {})[pod.metadata.uid] = self.now() + _BACKOFF

    def _recently_failed_uids(self, key: WaitingKey) -> set[str]:
        now = self.now()
        recently_failed = {uid: until for uid, until in self._backoff_until.pop(key, {}).items() if until > now}
        if recently_failed:
            self._backoff_until[key] = recently_failed
        return set(recently_failed)

    async def _report(self, key: WaitingKey, report: ReportOnPods) -> None:
        await self.pod_events.report(
            key,
            report.pods,
            report.reason,
            report.message,
            state_key=report.state_key,
            warn=report.warn,
            owners=report.owners,
        )
        uids = {pod.metadata.uid for pod in report.pods[:MAX_PODS]}
        if report.reason == HERE:
            self._reported.get(key, set()).difference_update(uids)
        else:
            self._reported.setdefault(key, set()).update(uids)
