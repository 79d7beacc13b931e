"""Scheduler plugins that raise, hang or return invalid answers, and a busy worker."""

import asyncio
import threading
import time

import pytest

from controller.devices.plugin import DeviceFit, DeviceScheduler
from controller.extender.accounts import DeviceAccounts
from controller.extender.evaluator import FitEvaluator
from controller.extender.filter_result import NodeFit
from controller.extender.requested_devices import requested_devices
from controller.extender.worker import DeviceWorker, NoAnswerInTime
from tests.builders.devices import CARD, ScriptedPlugin, bound_pod, card, device_node, device_pod
from tests.builders.lease_server import LaterClock

LATER = float("inf")
ASKED = requested_devices(device_pod("q", {CARD: 1}))


def fail() -> None:
    raise ValueError("no idea")


@pytest.fixture
def accounts() -> DeviceAccounts:
    found = DeviceAccounts()
    found.node_changed(None, device_node("n", {card("a"): 1, card("b"): 1}))
    found.pod_changed(None, bound_pod("p", "n", "a"))
    return found


def fits(evaluator: FitEvaluator) -> NodeFit:
    return evaluator.fits(ASKED, ["n"], LATER)[0]


@pytest.mark.parametrize("method", ["add_node", "pod_fits_device"])
async def test_a_plugin_that_raises_refuses_the_node_and_is_named(accounts: DeviceAccounts, method: str) -> None:
    fit = await DeviceWorker(accounts, [ScriptedPlugin(**{method: fail})], time.monotonic).run(fits, 60)
    assert fit == NodeFit(fits=False, reason=f"scheduler plugin odd: {method} failed: ValueError: no idea")


class Panic(BaseException):
    """Not an Exception, like the PanicException of pyo3."""


@pytest.mark.parametrize("error", [Panic("no idea"), SystemExit(1), GeneratorExit()])
@pytest.mark.parametrize("method", ["add_node", "pod_fits_device", "take_pod_resources", "remove_node"])
async def test_a_plugin_that_ends_threads_fails_like_any_other(
    accounts: DeviceAccounts, method: str, error: BaseException
) -> None:
    def stop() -> None:
        raise error

    worker = DeviceWorker(accounts, [ScriptedPlugin(**{method: stop})], time.monotonic)
    refuses = method in {"add_node", "pod_fits_device"}
    for _ in range(2):
        fit = await worker.run(fits, 5)
        assert fit.fits != refuses
        assert (
            not refuses or f"scheduler plugin odd: {method} failed: PluginStopped: {type(error).__name__}" in fit.reason
        )
        accounts.node_changed(device_node("n"), None)
        assert not (await worker.run(fits, 5)).fits
        accounts.node_changed(None, device_node("n", {card("a"): 1, card("b"): 1}))


class Unreadable(ValueError):
    def __str__(self) -> str:
        raise TypeError("no text")


@pytest.mark.parametrize("answer", [DeviceFit(fits=False, reasons=[Unreadable()]), Unreadable()])  # type: ignore[list-item]
async def test_a_reason_that_cannot_be_read_refuses_the_node(accounts: DeviceAccounts, answer: object) -> None:
    def ask() -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    fit = await DeviceWorker(accounts, [ScriptedPlugin(pod_fits_device=ask)], time.monotonic).run(fits, 60)
    assert fit.reason.startswith("scheduler plugin odd: pod_fits_device failed: ")


@pytest.mark.parametrize("method", ["take_pod_resources", "return_pod_resources", "remove_node"])
async def test_a_plugin_that_raises_during_accounting_refuses_nothing(accounts: DeviceAccounts, method: str) -> None:
    worker = DeviceWorker(accounts, [ScriptedPlugin(**{method: fail})], time.monotonic)
    assert (await worker.run(fits, 60)).fits
    accounts.pod_changed(bound_pod("p", "n", "a"), None)
    assert (await worker.run(fits, 60)).score == 0.5
    accounts.node_changed(device_node("n"), None)
    assert not (await worker.run(fits, 60)).fits


@pytest.mark.parametrize("answer", [7, "yes", ("a", "b"), DeviceFit(fits=True, score=float("nan")), [True, (), "1"]])
async def test_a_malformed_answer_of_a_plugin_refuses_the_node_and_is_reported(
    accounts: DeviceAccounts, answer: object
) -> None:
    fit = await DeviceWorker(accounts, [ScriptedPlugin(pod_fits_device=lambda: answer)], time.monotonic).run(fits, 60)
    assert not fit.fits
    assert fit.reason.startswith("scheduler plugin odd: pod_fits_device ")


async def test_a_refusal_without_a_reason_is_reported_as_such(accounts: DeviceAccounts) -> None:
    plugin = ScriptedPlugin(pod_fits_device=lambda: (False, (), 0.0))
    assert (
        "refused the node without a reason"
        in (await DeviceWorker(accounts, [plugin], time.monotonic).run(fits, 60)).reason
    )


async def test_an_empty_reason_refuses_the_node(accounts: DeviceAccounts) -> None:
    plugin = ScriptedPlugin(pod_fits_device=lambda: (False, ("",), 0.0))
    assert not (await DeviceWorker(accounts, [plugin], time.monotonic).run(fits, 60)).fits


async def test_an_allocation_that_raises_is_refused(accounts: DeviceAccounts) -> None:
    worker = DeviceWorker(accounts, [ScriptedPlugin(pod_allocate=fail)], time.monotonic)
    found = await worker.run(lambda evaluator: evaluator.allocate(ASKED, "n", {}), 60)
    assert found == "scheduler plugin odd: pod_allocate failed: ValueError: no idea"


async def test_a_plugin_that_refuses_a_node_allocates_nothing_there(accounts: DeviceAccounts) -> None:
    plugin = ScriptedPlugin(pod_fits_device=lambda: (False, (), 0.0), pod_allocate=fail)
    found = await DeviceWorker(accounts, [plugin], time.monotonic).run(
        lambda evaluator: evaluator.allocate(ASKED, "n", {}), 60
    )
    assert isinstance(found, str)
    assert "refused the node without a reason" in found


def test_a_plugin_leaves_the_whole_budget_of_steps_to_the_allocation(
    accounts: DeviceAccounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def allocates(plugins: list[DeviceScheduler], steps: int) -> bool:
        monkeypatch.setattr("controller.extender.evaluator.MAX_STEPS", steps)
        accounts.mark_all_changed()
        evaluator = FitEvaluator(plugins, time.monotonic)
        evaluator.sync(accounts.changes())
        return not isinstance(evaluator.allocate(ASKED, "n", {}), str)

    needed = next(steps for steps in range(1, 1000) if allocates([], steps))
    assert needed > 1
    assert allocates([ScriptedPlugin()], needed)


@pytest.mark.parametrize("method", ["add_node", "pod_fits_device", "take_pod_resources"])
async def test_a_plugin_that_hangs_is_dropped_and_the_others_continue(accounts: DeviceAccounts, method: str) -> None:
    over, dropped, good = threading.Event(), list[str](), ScriptedPlugin("good")
    worker = DeviceWorker(
        accounts, [ScriptedPlugin(**{method: over.wait}), good], time.monotonic, lambda name, _: dropped.append(name)
    )
    while not dropped:  # on a busy machine, the call may begin too late to be seen hanging the first time
        with pytest.raises(NoAnswerInTime, match="the scheduler retries the pod"):
            await worker.run(fits)
    assert dropped == ["odd"]
    assert (await worker.run(fits, 60)).fits
    over.set()  # the thread that was abandoned asks nobody any more
    assert (await worker.run(fits, 60)).fits
    assert good.asked == ["n"]
    assert dropped == ["odd"]


async def test_no_plugin_is_dropped_because_the_program_stood_still(accounts: DeviceAccounts) -> None:
    over, dropped, clock = threading.Event(), list[str](), LaterClock()
    plugin = ScriptedPlugin(pod_fits_device=over.wait)
    worker = DeviceWorker(accounts, [plugin], clock, lambda name, _: dropped.append(name))
    patient = asyncio.create_task(worker.run(fits, 60))
    while not plugin.asked:  # noqa: ASYNC110 - another thread fills it
        await asyncio.sleep(0.001)
    asking = [asyncio.create_task(worker.run(fits, 0.1)) for _ in range(2)]
    clock.passed_s = 60
    for each in asking:
        with pytest.raises(NoAnswerInTime):
            await each
    over.set()
    await patient
    await worker.run(fits, 60)
    assert dropped == []


@pytest.mark.parametrize("deleted", ["while the call hangs", "after the plugin was dropped"])
async def test_a_node_deleted_around_a_hanging_call_is_removed_from_the_other_plugins(
    accounts: DeviceAccounts, deleted: str
) -> None:
    over, dropped, good = threading.Event(), list[str](), ScriptedPlugin("good")
    hanging = ScriptedPlugin(pod_fits_device=over.wait)
    worker = DeviceWorker(accounts, [hanging, good], time.monotonic, lambda name, _: dropped.append(name))
    assert await worker.run(lambda evaluator: evaluator.node_names, 60) == ["n"]
    asking = asyncio.create_task(worker.run(fits, 60))
    if deleted == "while the call hangs":
        while not hanging.asked:  # noqa: ASYNC110 - another thread fills it
            await asyncio.sleep(0.01)
        accounts.node_changed(device_node("n"), None)
    while not dropped:
        with pytest.raises(NoAnswerInTime):
            await worker.run(fits)
    if deleted == "after the plugin was dropped":
        accounts.node_changed(device_node("n"), None)
    assert not (await worker.run(fits, 60)).fits
    assert good.added == []
    over.set()
    asking.cancel()  # the abandoned thread never answers


async def test_nodes_are_removed_from_the_last_of_several_plugins_that_hang(accounts: DeviceAccounts) -> None:
    accounts.node_changed(None, device_node("m", {card("a"): 1}))
    over, dropped, good = threading.Event(), list[str](), ScriptedPlugin("good")
    hanging = [ScriptedPlugin("1", pod_fits_device=over.wait), ScriptedPlugin("2", remove_node=over.wait)]
    worker = DeviceWorker(accounts, [*hanging, good], time.monotonic, lambda name, _: dropped.append(name))
    for count in (1, 2):
        while len(dropped) < count:
            with pytest.raises(NoAnswerInTime):
                await worker.run(fits)
        for name in ("n", "m"):
            accounts.node_changed(device_node(name), None)
    assert not (await worker.run(fits, 60)).fits
    assert good.added == []
    over.set()


async def test_a_slow_evaluation_drops_no_plugin(accounts: DeviceAccounts) -> None:
    """Many calls, or the search, are slow, but no single call hangs."""
    dropped, over = list[str](), threading.Event()
    worker = DeviceWorker(accounts, [ScriptedPlugin()], time.monotonic, lambda name, _: dropped.append(name))
    with pytest.raises(NoAnswerInTime):
        await worker.run(lambda _: over.wait(), 0.3)
    over.set()
    assert (await worker.run(fits, 60)).fits
    assert dropped == []


async def test_evaluations_beyond_the_queue_limit_are_refused_at_once(accounts: DeviceAccounts) -> None:
    over = threading.Event()
    worker = DeviceWorker(accounts, [], time.monotonic)
    waiting = [asyncio.create_task(worker.run(lambda _: over.wait(), 60)) for _ in range(66)]
    await asyncio.sleep(0)
    with pytest.raises(NoAnswerInTime, match="already waiting"):
        await worker.run(fits)
    over.set()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert sum(each is True for each in done) >= 60
