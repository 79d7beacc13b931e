"""Pods with models: nodes that have them first, then those that fetch them, then those with room."""

import asyncio
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from controller.extender.accounts import DeviceAccounts
from controller.extender.device_objects import DevicePod
from controller.extender.refused_pods import RefusedPods
from controller.extender.service import ExtenderService, Unanswerable
from controller.extender.wire import ExtenderArgs
from controller.extender.worker import DeviceWorker
from controller.placement.groups import NodeLimits
from controller.placement.pod_placement import MODELS_ANNOTATION
from controller.state.cluster_state import ClusterState
from shared.api.core import Node
from shared.api.model_node import ModelNode
from shared.names import draining_label, fetching_label, ready_label, snapshot_label
from tests.builders.devices import CARD, card, device_node, pod_json

M, R = "llama", "c0ffee"
HAS = {ready_label(M): "true", snapshot_label(M, R): "true"}
NODES: dict[str, dict[str, str]] = {
    "has": HAS,
    "fetches": {fetching_label(M, R): "true"},
    "room": {},
    "full": {},
    "leaves": HAS | {draining_label(M, R): "true"},
}


def service(devices_clock: Callable[[], float] = time.monotonic) -> ExtenderService:
    cluster, accounts = ClusterState(NodeLimits(0, 0), time.monotonic), DeviceAccounts()
    for name, labels in NODES.items():
        cluster.nodes.upsert(msgspec.convert({"metadata": {"name": name, "labels": labels}}, Node))
        accounts.node_changed(None, device_node(name, {card("a"): 1} if name in {"room", "full"} else {}))
    for name, free in (("room", 2**30), ("full", -1)):
        status = {"diskFree": 2**30, "floor": 2**30 - free}
        cluster.model_nodes.upsert(msgspec.convert({"metadata": {"name": name}, "status": status}, ModelNode))
    worker = DeviceWorker(accounts, [], devices_clock)
    return ExtenderService(cluster, worker, time.monotonic, RefusedPods(), answer_s=60)


def args(asks: dict[str, int] | None = None, models: str = f"{M}@{R}") -> ExtenderArgs:
    body: dict[str, Any] = pod_json("p", asks)
    body["metadata"].setdefault("annotations", {})[MODELS_ANNOTATION] = models
    return ExtenderArgs(pod=msgspec.convert(body, DevicePod), node_names=list(NODES))


async def scores(asked: ExtenderArgs) -> dict[str, int]:
    return {each.host: each.score for each in await service().prioritize(asked)}


async def test_nodes_that_have_the_model_come_first() -> None:
    assert await scores(args()) == {"has": 9, "fetches": 6, "room": 3, "full": 0, "leaves": 0}
    assert (await service().filter(args())).node_names == list(NODES)


async def test_a_model_of_another_namespace_adds_no_score() -> None:
    assert set((await scores(args(models="other_llama@c0ffee"))).values()) == {0}


async def test_devices_filter_nodes_and_models_rank_those_that_fit() -> None:
    asked = args({CARD: 1})
    assert (await service().filter(asked)).node_names == ["room", "full"]
    assert await scores(asked) == {"has": 0, "fetches": 0, "room": 4, "full": 1, "leaves": 0}


async def test_a_refused_pod_is_remembered_until_a_node_fits() -> None:
    asked, found = args({CARD: 2}), service()
    refused = await found.filter(asked)
    assert refused.node_names == []
    assert "requested 2, used 0, capacity 1" in refused.failed_and_unresolvable_nodes["room"]
    assert found.refused.any_before(time.monotonic())
    await found.filter(args({CARD: 1}))
    assert not found.refused.any_before(time.monotonic())


async def test_a_pod_counts_as_refused_while_the_answer_is_computed() -> None:
    """The answer misses devices freed meanwhile, and the scheduler may have seen that change before it asked."""
    found, over = service(), threading.Event()
    for count in (1, 2):
        busy = asyncio.create_task(found.worker.run(lambda _: over.wait(), 60))
        asking = asyncio.create_task(found.filter(args({CARD: count})))
        await asyncio.sleep(0)
        assert found.refused.any_before(time.monotonic())
        over.set()
        await busy
        await asking
        assert found.refused.any_before(time.monotonic()) == (count == 2)
        over.clear()


async def test_running_out_of_time_is_an_error_and_not_a_refusal() -> None:
    found = service(devices_clock=lambda: math.inf)
    with pytest.raises(Unanswerable, match="the time limit was reached"):
        await found.filter(args({CARD: 1}))
    assert not found.refused.any_before(time.monotonic())
