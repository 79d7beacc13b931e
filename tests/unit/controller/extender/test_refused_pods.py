"""When refused pods are woken, and what is written for that."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from controller.extender.accounts import DeviceAccounts
from controller.extender.refused_pods import RefusedPods, SchedulerWaker, wake_up_path
from shared.internal_errors import InternalErrors
from tests.builders.api_server import connected
from tests.builders.devices import bound_pod, card, device_node

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Waking:
    """A waker with a fake clock, which each wait advances; an event can be made to happen during the wait."""

    def __init__(self) -> None:
        self.refused, self.now_s, self.written, self.codes = RefusedPods(), 100.0, list[Any](), list[int]()
        self.errors, self.meanwhile = InternalErrors(), list[Any]()
        self.waker: SchedulerWaker

    async def answer(self, request: web.Request) -> web.Response:
        assert request.path == wake_up_path("ns")
        if code := self.codes.pop(0) if self.codes else 0:
            return web.json_response({"code": code, "message": "not now"}, status=code)
        self.written.append(await request.json())
        return web.json_response({})

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        if self.meanwhile:
            self.meanwhile.pop(0)()

    async def freed(self) -> int:
        """Free devices; return how often pods have been woken after that."""
        self.waker.devices_freed("n")
        while (task := self.waker._task) is not None and not task.done():
            await asyncio.wait([task])
        assert not self.errors.counts
        return len(self.written)


@pytest.fixture
async def waking(tmp_path: Path) -> AsyncIterator[Waking]:
    found = Waking()
    async with connected(found.answer, tmp_path) as kube:
        found.waker = SchedulerWaker(
            kube, "ns", found.refused, lambda: found.now_s, lambda: NOW, found.errors, found.sleep
        )
        assert await found.freed() == 1, "an earlier replica may have refused pods"
        found.written.clear()
        found.now_s = 100.0
        yield found


async def test_a_refused_pod_that_the_scheduler_does_not_retry_is_woken_once(waking: Waking) -> None:
    waking.refused.add("p", 99.0)
    assert await waking.freed() == 1
    assert waking.written == [{"metadata": {"annotations": {"larder.dev/devices-freed": NOW.isoformat()}}}]
    assert await waking.freed() == 1


async def test_nothing_is_written_without_a_refused_pod(waking: Waking) -> None:
    assert await waking.freed() == 0
    waking.refused.add("p", 99.0)
    waking.refused.remove("p")
    assert await waking.freed() == 0


async def test_nothing_is_written_if_the_scheduler_asks_by_itself(waking: Waking) -> None:
    waking.refused.add("p", 99.0)
    waking.meanwhile.append(lambda: waking.refused.add("p", 100.5))
    assert await waking.freed() == 0


async def test_an_old_refusal_is_left_to_the_scheduler(waking: Waking) -> None:
    waking.refused.add("p", -201.0)
    assert await waking.freed() == 0
    waking.refused.add("p", -199.0)
    assert await waking.freed() == 1


async def test_pods_are_woken_whenever_a_plugin_is_dropped(waking: Waking) -> None:
    waking.codes = [500]
    waking.waker.plugin_dropped()
    assert await waking.freed() == 1
    assert await waking.freed() == 1


async def test_devices_that_become_free_during_the_wait_count_as_well(waking: Waking) -> None:
    def asked_and_freed() -> None:
        waking.refused.add("p", 100.5)
        waking.waker.devices_freed("n")

    waking.refused.add("p", 99.0)
    waking.meanwhile.append(asked_and_freed)
    assert await waking.freed() == 1


async def test_an_error_is_retried(waking: Waking) -> None:
    waking.refused.add("p", 99.0)
    waking.codes = [500, 404]
    assert await waking.freed() == 1


async def test_after_eight_errors_the_pod_is_woken_by_the_next_change(waking: Waking) -> None:
    waking.refused.add("p", 99.0)
    waking.codes = [404] * 8
    assert await waking.freed() == 0
    assert await waking.freed() == 1


def test_the_memory_of_refused_pods_is_bounded_and_drops_the_oldest() -> None:
    refused = RefusedPods()
    for number in range(10_001):
        refused.add(str(number), float(number))
    assert not refused.any_before(0.0)
    assert refused.any_before(1.0)


def test_accounts_report_new_devices_and_released_ones_only() -> None:
    accounts, freed = DeviceAccounts(), list[str]()
    accounts.freed.listen(freed.append)
    node = device_node("n", {card("a"): 1})
    accounts.node_changed(None, node)
    accounts.node_changed(node, node)
    assert freed == ["n"]
    pod = bound_pod("p", "n", "a")
    accounts.pod_changed(None, pod)
    assert freed == ["n"]
    accounts.pod_changed(pod, None)
    assert freed == ["n", "n"]
