"""What a reconcile of waiting pods does if the API server does not admit a change to one of them."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web

from controller.manager.event_recorder import EventRecorder
from controller.manager.limited_events import LimitedEvents
from controller.manager.pod_events import PodEvents
from controller.state.progress import ProgressTracker
from controller.waiting_pods.act import WaitingPodsActor
from controller.waiting_pods.observe import WaitingPodsObserver
from controller.waiting_pods.reconcile import WaitingPodsReconciler
from controller.waiting_pods.state_metrics import WaitingPodsMetrics
from shared.kube.transport import Kube
from tests.builders.api_server import connected, status_response
from tests.builders.cluster import cache, fresh_cluster, group, node
from tests.builders.waiting_pods import FILES, KEY, POOL, waiting_pod

WEBHOOK = 'Internal error occurred: failed calling webhook "a.example.org": failed to call webhook: EOF'


class WebhookOfOnePod:
    """A server with a webhook that fails for one pod, and the pods that were changed."""

    def __init__(self) -> None:
        self.changed = list[str]()

    async def answer(self, request: web.Request) -> web.Response:
        await request.read()
        if request.method == "PATCH" and request.path.endswith("/guarded"):
            return status_response(request, 500, WEBHOOK)
        if request.method == "PATCH":
            self.changed.append(request.path.rpartition("/")[2])
        return web.json_response({"metadata": {"name": "n"}})


@pytest.fixture
def server() -> WebhookOfOnePod:
    return WebhookOfOnePod()


@pytest.fixture
async def kube(server: WebhookOfOnePod, tmp_path: Path) -> AsyncIterator[Kube]:
    async with connected(server.answer, tmp_path) as kube:
        yield kube


async def test_a_webhook_that_fails_for_one_pod_keeps_no_other_behind_its_gate(
    kube: Kube, server: WebhookOfOnePod
) -> None:
    cluster = fresh_cluster()
    cluster.groups.upsert(group("gpus", POOL))
    cluster.cluster_model_caches.upsert(cache("m", "gpus"))
    cluster.nodes.upsert(node("a", POOL | FILES))
    for name in ("guarded", "other"):  # the older of pods created in the same second is the first by name
        cluster.model_pods.upsert(waiting_pod(name, gated=True))

    def now() -> datetime:
        return datetime.now(UTC)

    reconciler = WaitingPodsReconciler(
        WaitingPodsObserver(cluster, ProgressTracker(lambda: 0.0, lambda *_: None)),
        WaitingPodsActor(kube),
        PodEvents(LimitedEvents(EventRecorder(kube, now), lambda: 0.0)),
        WaitingPodsMetrics(now),
        now,
    )
    assert await reconciler.reconcile(KEY) is not None
    assert server.changed == ["other"]
