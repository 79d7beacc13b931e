"""A failing reconcile affects only its key, and is reported."""

import asyncio

import httpx
import pytest
from prometheus_client import generate_latest

from controller.groups.keys import GroupKey
from controller.manager.controller import Controller, QueueKey
from controller.manager.health import health_app
from controller.manager.metrics import Metrics
from controller.manager.workers import Workers
from controller.manager.write import StaleError
from controller.nodes.keys import NodeKey
from shared.backoff import Backoff
from shared.kube.errors import Unreachable
from shared.kube.work_queue import WorkQueue
from tests.readers.metrics import samples


class RecordingReconciler:
    """A reconciler that records its keys, and fails for one name."""

    def __init__(self) -> None:
        self.served: list[str] = []
        self.all_served = asyncio.Event()

    async def reconcile(self, name: str) -> float | None:
        self.served.append(name)
        if self.served.count("bad") >= 2 and "good" in self.served:
            self.all_served.set()
        if name == "bad":
            raise KeyError(name)
        return None


def workers(recording: RecordingReconciler, metrics: Metrics) -> Workers:
    found = Workers(lambda: True, metrics)
    for key in (NodeKey, GroupKey):
        found.add(
            Controller(name="x", key=key, all_keys=lambda: (), reconcile=lambda key: recording.reconcile(key.name))
        )
    return found


async def test_a_failing_reconcile_affects_one_key_and_is_retried() -> None:
    recording, metrics = RecordingReconciler(), Metrics()
    served = workers(recording, metrics)
    queue: WorkQueue[QueueKey] = WorkQueue(served.failed, Backoff(first_s=0.001, cap_s=0.002))
    for name in ("bad", "good"):
        queue.add(NodeKey(name))
    serving = asyncio.create_task(queue.serve(1, served.serve))
    await asyncio.wait_for(recording.all_served.wait(), 60)
    assert not serving.done()
    serving.cancel()
    await asyncio.wait([serving])
    assert metrics.internal_errors.counts["NodeKey"] >= 1
    shown = samples(generate_latest(metrics.registry).decode())
    assert shown['larder_reconcile_total{controller="x",result="success"}'] == 1
    assert shown['larder_reconcile_total{controller="x",result="error"}'] >= 2


@pytest.mark.parametrize(
    ("error", "result"), [(Unreachable("away"), "error"), (StaleError("old"), "requeue"), (KeyError("x"), "error")]
)
async def test_reconciles_are_counted_by_result_and_a_stale_cache_is_a_requeue(error: Exception, result: str) -> None:
    metrics = Metrics()
    served = Workers(lambda: True, metrics)

    async def reconcile(_: GroupKey) -> float | None:
        raise error

    served.add(Controller(name="groups", key=GroupKey, all_keys=lambda: (), reconcile=reconcile))
    with pytest.raises(type(error)):
        await served.serve(GroupKey("g"))
    shown = samples(generate_latest(metrics.registry).decode())
    assert shown[f'larder_reconcile_total{{controller="groups",result="{result}"}}'] == 1
    assert shown['larder_reconcile_time_seconds_count{controller="groups"}'] == 1


async def test_only_unforeseen_errors_count_as_internal_errors() -> None:
    metrics = Metrics()
    served = workers(RecordingReconciler(), metrics)
    for error in (Unreachable("away"), StaleError("old"), KeyError("x"), TypeError("y")):
        served.failed(GroupKey("g"), error, 1.0)
    transport = httpx.ASGITransport(health_app(metrics, lambda: True))
    async with httpx.AsyncClient(transport=transport, base_url="http://controller") as http:
        health, shown = (await http.get("/healthz")), samples((await http.get("/metrics")).text)
    assert health.status_code == 200
    assert health.text == "ok\ninternal errors since the start: 2, the last: TypeError in GroupKey; the log has more\n"
    assert shown['larder_internal_errors_total{part="GroupKey"}'] == 2
