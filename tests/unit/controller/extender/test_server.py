"""Which requests the endpoints accept, from which callers, and their answers."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from controller.admission.callers import Callers
from controller.extender.accounts import DeviceAccounts
from controller.extender.bind import DeviceBinder
from controller.extender.callers import extender_callers, extender_key
from controller.extender.device_objects import DevicePod
from controller.extender.metrics import ExtenderMetrics
from controller.extender.open_namespaces import OpenNamespaces
from controller.extender.refused_pods import RefusedPods
from controller.extender.reservations import ReservationStore
from controller.extender.reserve import DeviceReserver
from controller.extender.server import ExtenderServer
from controller.extender.service import ExtenderService
from controller.extender.shared_claims import SharedClaims
from controller.extender.wire import ExtenderBindingArgs
from controller.extender.worker import DeviceWorker
from controller.manager.asgi import CountRequests
from controller.placement.groups import NodeLimits
from controller.state.cluster_state import ClusterState
from shared.kube.cache import Cache
from tests.builders.api_server import Objects, serving
from tests.builders.devices import CARD, card, device_node, pod_json

KEY = "0123456789abcdefghijklmnopqrstuvwxyz"


class Extender:
    """The endpoints for a cluster of two nodes, and a client."""

    client: httpx.AsyncClient

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry, self.ready = registry, True
        self.counted: list[tuple[str, int]] = []

    async def ask(self, verb: str, body: object, key: str = extender_key(KEY)) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.client.post(f"/scheduler/{key}/{verb}", content=content)


@pytest.fixture
async def extender(tmp_path: Path) -> AsyncIterator[Extender]:
    accounts, registry = DeviceAccounts(), CollectorRegistry()
    accounts.node_changed(None, device_node("a", {card("x"): 1}))
    accounts.node_changed(None, device_node("b"))
    async with serving(Objects(), tmp_path) as kube:
        worker = DeviceWorker(accounts, [], time.monotonic)
        cluster = ClusterState(NodeLimits(0, 0), time.monotonic)
        pods: Cache[DevicePod] = Cache(accounts.pod_changed)
        store = ReservationStore(kube, "ns", "me", time.monotonic)
        reserver = DeviceReserver(kube, accounts, pods, worker, store)
        is_open = OpenNamespaces(kube, time.monotonic).is_open
        binder = DeviceBinder(kube, accounts, pods, reserver, is_open, SharedClaims(kube, enabled=False))
        found = Extender(registry)
        server = ExtenderServer(
            ExtenderService(cluster, worker, time.monotonic, RefusedPods(), answer_s=60),
            binder,
            extender_callers(lambda: [KEY]),
            lambda: found.ready,
            ExtenderMetrics(registry),
        )
        app = CountRequests(server, lambda route, status: found.counted.append((route, status)))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://larder") as found.client:
            yield found


def args(**fields: Any) -> dict[str, Any]:
    return {"Pod": pod_json("p", {CARD: 1}), "Nodes": None, "NodeNames": ["a", "b"]} | fields


async def test_filter_and_prioritize_answer_with_the_field_names_of_kube_scheduler(extender: Extender) -> None:
    found = (await extender.ask("filter", args())).json()
    assert found == {
        "NodeNames": ["a"],
        "FailedAndUnresolvableNodes": {"b": f"container main: {CARD}: requested 1, used 0, capacity 0"},
        "Error": "",
    }
    assert (await extender.ask("prioritize", args())).json() == [{"Host": "a", "Score": 10}, {"Host": "b", "Score": 0}]


async def test_a_pod_with_a_malformed_annotation_fits_no_node_and_the_reason_is_reported(extender: Extender) -> None:
    asked = args(Pod=pod_json("p", annotation="{"))
    found = (await extender.ask("filter", asked)).json()
    assert found["NodeNames"] == []
    assert (
        "annotation KubeDevice/DeviceInfo of the pod: the text is not JSON" in found["FailedAndUnresolvableNodes"]["a"]
    )


async def test_a_request_with_whole_nodes_instead_of_names_is_refused(extender: Extender) -> None:
    found = await extender.ask("filter", args(NodeNames=None, Nodes={"items": []}))
    assert "set nodeCacheCapable: true" in found.json()["Error"]


async def test_a_failed_bind_returns_and_counts_the_error(extender: Extender) -> None:
    body = {"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "a"}
    assert (await extender.ask("bind", body)).json() == {"Error": "the pod is gone"}
    assert (
        extender.registry.get_sample_value(
            "larder_extender_duration_seconds_count", {"verb": "bind", "outcome": "refused"}
        )
        == 1
    )


async def test_a_pod_is_not_bound_after_the_scheduler_gave_up(
    extender: Extender, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, bound = asyncio.Event(), list[str]()

    async def bind(_: DeviceBinder, args: ExtenderBindingArgs) -> None:
        bound.append(args.pod_name)
        await over.wait()

    monkeypatch.setattr(DeviceBinder, "bind", bind)
    bodies = [{"PodName": f"p{i}", "PodNamespace": "default", "PodUID": "u", "Node": "a"} for i in range(65)]
    asking = [asyncio.create_task(extender.ask("bind", body)) for body in bodies]
    done, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
    assert [each.result().json() for each in done] == [{"Error": "64 pods are being bound; the scheduler retries"}]
    over.set()
    assert [each.result().json() for each in (await asyncio.wait(asking))[0] - done] == [{}] * 64
    assert len(bound) == 64
    assert (await extender.ask("bind", bodies[0])).json() == {}


@pytest.mark.parametrize("key", ["wrong", KEY, extender_key(KEY)[:-1] + "0"])
async def test_wrong_keys_and_the_admission_key_are_answered_with_not_found(extender: Extender, key: str) -> None:
    answer = await extender.ask("filter", args(), key)
    assert (answer.status_code, answer.text) == (404, "Not Found")
    assert not Callers(lambda: [KEY]).denial(KEY, {})
    assert Callers(lambda: [KEY]).denial(extender_key(KEY), {})


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[" * 100_000, 400),
        (b"{}", 400),
        (b'{"Pod": {"metadata": 1}}', 400),
        (b" " * (4 * 2**20 + 1), 413),
    ],
    ids=["json", "depth", "empty", "type", "size"],
)
async def test_hostile_bodies_are_refused(extender: Extender, body: bytes, status: int) -> None:
    assert (await extender.ask("filter", body)).status_code == status


async def test_requests_are_answered_with_503_until_the_cluster_state_is_complete(extender: Extender) -> None:
    extender.ready = False
    assert (await extender.ask("filter", args())).status_code == 503


async def test_a_hundred_concurrent_requests_are_all_answered(extender: Extender) -> None:
    answers = await asyncio.gather(*(extender.ask("filter", args()) for _ in range(100)))
    found = [answer.json() for answer in answers]
    assert all(each["NodeNames"] == ["a"] or "already waiting" in each["Error"] for each in found)
    assert sum(each["NodeNames"] == ["a"] for each in found) >= 32


async def test_only_known_routes_are_served_and_metrics_do_not_show_the_key(extender: Extender) -> None:
    key = extender_key(KEY)
    assert (await extender.client.post(f"/scheduler/{key}/preempt")).status_code == 404
    assert (await extender.client.post(f"/scheduler/{key}/filter/")).status_code == 404
    assert (await extender.client.get(f"/scheduler/{key}/filter")).status_code == 405
    assert (await extender.ask("filter", args())).status_code == 200
    template = "/scheduler/{key}/filter"
    assert extender.counted == [("unknown", 404), ("unknown", 404), (template, 405), (template, 200)]
