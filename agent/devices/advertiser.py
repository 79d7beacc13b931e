"""Polls the device plugins, and writes changes in their devices to the agent's own Node."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import structlog

from agent.devices.combine_offers import Combined, combine
from agent.devices.decide import (
    AdvertisedNode,
    DeviceObservation,
    decide,
    overruled_before,
    overruled_by_kubelet,
    unknown_keys,
    wanted_resources,
)
from agent.devices.node_devices import DevicesOfNode
from agent.devices.plugin_set import Answers, PluginSet
from agent.devices.report import DeviceReport
from agent.devices.store_contents import LatestContents
from agent.event_wait import wait_or_timeout
from shared.backoff import Backoff
from shared.daemon_thread import run_in_daemon_thread
from shared.devices.info import NodeInfo
from shared.kube.errors import KubeError

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_SETTLE_S = 2.0  # models change in bursts, and each write of a Node wakes the scheduler
_MAX_STEPS = 4  # two annotations, the status, and the record once resources are removed
_BACKOFF = Backoff(first_s=1, cap_s=300)
NOT_APPLIED = "DevicesNotApplied"


@dataclass(slots=True)
class Advertiser:
    """Polls all plugins every `interval_s` seconds, and soon after the store's models change."""

    node: DevicesOfNode
    node_name: str
    plugins: PluginSet
    contents: LatestContents
    prefixes: tuple[str, ...]
    interval_s: float
    on_report: Callable[[], None]
    writes: Counter[str]
    backoff: Backoff = _BACKOFF
    report: DeviceReport = field(default_factory=DeviceReport, init=False)
    _written: dict[str, tuple[int, int]] = field(default_factory=dict, init=False)
    _overruled: frozenset[str] = field(default=frozenset(), init=False)
    _knows_node: bool = field(default=False, init=False)
    _failures: int = field(default=0, init=False)

    async def run(self) -> None:
        """Advertise until cancelled; start once the store has been read and the labels are correct."""
        await self.contents.known.wait()
        while True:
            self.contents.changed.clear()
            await self._poll()
            wait_s = self.backoff.delay_s(self._failures) if self._failures else self.interval_s
            if await wait_or_timeout(self.contents.changed, wait_s):
                await asyncio.sleep(min(_SETTLE_S, self.interval_s))

    async def _poll(self) -> None:
        answers = await run_in_daemon_thread(self.plugins.ask, self.node_name)
        try:
            combined, refusal = await self._advertise(answers)
        except KubeError as error:
            combined, refusal = combine(self.node_name, answers.offers, {}), (error.reason, str(error))
        self._finish(answers, combined, refusal)

    async def _advertise(self, answers: Answers) -> tuple[Combined, tuple[str, str] | None]:
        """Write the changes; return what is advertised, and a reason and message if they were not applied."""
        node = await self.node.read()
        unknown, problem = unknown_keys(node)
        if problem:
            _LOG.warning("device_annotation_replaced", node=self.node_name, message=problem)
        combined = combine(self.node_name, answers.offers, unknown)
        self._note_overruled(node, combined.info)
        observation = DeviceObservation(node, combined.info, self.prefixes, self._overruled)
        for _ in range(_MAX_STEPS):
            actions = decide(observation)
            if not actions:
                self._written = wanted_resources(observation)
                return combined, None
            for action in actions:
                node = await self.node.apply(action, node.uid)
                self.writes[action.what] += 1
                _LOG.info("devices_written", node=self.node_name, what=action.what)
            observation = replace(observation, node=node)
        message = "the API server did not change the Node; check for an admission policy that blocks the change"
        return combined, (NOT_APPLIED, message)

    def _note_overruled(self, node: AdvertisedNode, info: NodeInfo) -> None:
        if not self._knows_node:
            self._knows_node, self._overruled = True, overruled_before(node, info, self.prefixes)
        found = overruled_by_kubelet(node, self._written) - self._overruled
        if found:
            _LOG.warning("allocatable_overruled", node=self.node_name, resources=sorted(found))
            self._overruled |= found

    def _finish(self, answers: Answers, combined: Combined, refusal: tuple[str, str] | None) -> None:
        self._failures = self._failures + 1 if refusal else 0
        failures = {**answers.failures, **combined.failures}
        before, info = self.report, combined.info
        names = {*info.capacity, *info.allocatable, *info.used, *info.scorer}
        sizes = (len(names), len(info.kube_alloc))
        self.report = DeviceReport(before.polls + 1, combined.plugins, failures, refusal, sizes)
        self._log_changes(before)
        self.on_report()

    def _log_changes(self, before: DeviceReport) -> None:
        now = self.report
        for plugin, reason in now.failures.items():
            if before.failures.get(plugin) != reason:
                _LOG.warning("device_plugin_left_out", node=self.node_name, plugin=plugin, message=reason)
        for plugin in sorted(set(now.plugins) - set(before.plugins)):
            _LOG.info("device_plugin_advertised", node=self.node_name, plugin=plugin)
        if now.refusal and now.refusal != before.refusal:
            reason, message = now.refusal
            _LOG.warning("devices_not_advertised", node=self.node_name, reason=reason, message=message)
