"""Leader election with a Lease on a real API server: never two leaders, and a quick takeover."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from rig.control_plane import ControlPlane
from shared.kube.edit import merge_patch
from shared.kube.elector import Elector
from shared.kube.lease import LeaseLock
from shared.kube.transport import Kube

LEASE_S, DEADLINE_S, RETRY_S = 4, 2.5, 0.5
SOON_S = 60


class Proxy(Protocol):
    def block(self) -> None: ...
    def unblock(self) -> None: ...


class ProxiedConnection(Protocol):
    @property
    def kube(self) -> Kube: ...
    @property
    def proxy(self) -> Proxy: ...


OpenProxied = Callable[[], Awaitable[ProxiedConnection]]


@dataclass
class Leaders:
    """Records who leads when; two leaders at once are an error."""

    working: int | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def work(self, number: int) -> None:
        assert self.working is None, f"{number} began while {self.working} worked"
        self.working = number
        self.changed.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.working = None
            self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(SOON_S):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    async def leader(self, but: int | None = None) -> int:
        await self.until(lambda: self.working not in {None, but})
        assert self.working is not None
        return self.working


def lease_path(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/leader"


async def campaign(number: int, kube: Kube, namespace: str, leaders: Leaders) -> None:
    lock = LeaseLock(kube, namespace, "leader", f"candidate-{number}", LEASE_S)
    while True:
        await Elector(lock, lambda: leaders.work(number), DEADLINE_S, RETRY_S).run()


async def test_a_leader_that_is_cut_off_stops_before_the_next_begins(namespace: str, open_proxied: OpenProxied) -> None:
    leaders = Leaders()
    connections = [await open_proxied() for _ in range(3)]
    tasks = [
        asyncio.create_task(campaign(n, connection.kube, namespace, leaders))
        for n, connection in enumerate(connections)
    ]
    first = await leaders.leader()
    connections[first].proxy.block()
    second = await leaders.leader(but=first)
    assert second != first
    connections[first].proxy.unblock()
    tasks[second].cancel()
    await asyncio.wait([tasks[second]])
    lease = msgspec.json.decode(await connections[second].kube.request("GET", lease_path(namespace)))
    assert lease["spec"].get("holderIdentity") != f"candidate-{second}", "a cancelled leader gives its lease back"
    third = await leaders.leader(but=second)
    assert third != second
    assert not any(task.done() for number, task in enumerate(tasks) if number != second)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_leader_stops_without_an_api_server_and_leads_again_afterwards(
    kube: Kube, namespace: str, control_plane: ControlPlane
) -> None:
    leaders = Leaders()
    running = asyncio.create_task(campaign(0, kube, namespace, leaders))
    await leaders.leader()
    await asyncio.to_thread(control_plane.stop_apiserver)
    try:
        await leaders.until(lambda: leaders.working is None)
    finally:
        await asyncio.to_thread(control_plane.resume_apiserver)
    assert await leaders.leader() == 0
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_the_holder_writes_its_annotations_and_keeps_those_of_others(kube: Kube, namespace: str) -> None:
    path = lease_path(namespace)
    first = LeaseLock(kube, namespace, "leader", "a", LEASE_S, {"larder.dev/api": "https://a:8443"})
    second = LeaseLock(kube, namespace, "leader", "b", LEASE_S, {"larder.dev/api": "https://b:8443"})
    assert await first.acquire()
    await merge_patch(kube, path, {"metadata": {"annotations": {"of": "another"}, "labels": {"of": "another"}}})
    assert await first.acquire()
    await first.release()
    assert await second.acquire()
    lease = msgspec.json.decode(await kube.request("GET", path))
    assert lease["metadata"]["annotations"] == {"of": "another", "larder.dev/api": "https://b:8443"}
    assert lease["metadata"]["labels"] == {"of": "another"}
    assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]) == ("b", 2)
