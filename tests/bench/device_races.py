"""Searches for races over devices: `python -m tests.bench.device_races [SEEDS [FIRST]]`.

Two replicas bind pods to one node while the API server, the watches and the scheduler misbehave at random. Requests
fail before or after they take effect, bindings arrive late, watches lag, and pods end or are created again. In some
runs, callers give up, or minutes pass, or the Lease is deleted.

A seed decides what happens, but not when exactly, so this is no test. It prints what the API server did in each run in
which two pods got one card, or a card was lost.
"""

import asyncio
import copy
import itertools
import json
import logging
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog
from aiohttp import web

from controller.extender.device_objects import DevicePod
from controller.extender.reservations import EXPIRES_S
from controller.extender.wire import ExtenderBindingArgs
from shared.devices.annotation import ANNOTATION
from shared.errors import LarderError
from shared.json_object import Json
from tests.builders.api_server import connected
from tests.builders.device_replica import DeviceReplica
from tests.builders.devices import CARD, card
from tests.builders.lease_server import BindingServer, LaterClock, status

CARDS = {card(place): 1 for place in "ab"}
NAMES = "pqrstu"
STEPS = 150


class Change(NamedTuple):
    """What a watch reports."""

    pod: DevicePod
    is_deleted: bool


class UnreliableServer(BindingServer):
    """Answers slowly; some requests fail before or after they take effect, and some bindings arrive later."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance, self.is_reliable, self._in_flight = chance, False, 0
        self.changes: list[Change] = []
        self.history: list[str] = []
        self._late: set[asyncio.Task[None]] = set()
        self._uids = itertools.count()

    async def answer(self, request: web.Request) -> web.Response:
        self._in_flight += 1
        try:
            return await super().answer(request) if self.is_reliable else await self._perhaps(request)
        finally:
            self._in_flight -= 1

    async def _perhaps(self, request: web.Request) -> web.Response:
        await self.pause()
        if self._happens(0.05):
            return status(500)
        if request.method != "GET" and self._happens(0.1):
            return status(422)
        if request.path.endswith("/binding") and self._happens(0.2):
            late = asyncio.create_task(self._bind_later(request.path.split("/")[-2], await request.json()))
            self._late.add(late)
            late.add_done_callback(self._late.discard)
            return status(504)
        response = await super().answer(request)
        await self.pause()
        return status(500) if self._happens(0.05) else response

    async def _bind_later(self, name: str, body: Json) -> None:
        await asyncio.sleep(self.chance.random() * 0.03)
        if name in self.pods:
            await self._bind(self.pods[name], body)

    async def _bind(self, pod: Json, body: Json) -> web.Response:
        response = await super()._bind(pod, body)
        self.history.append(f"binding of {body['metadata']}: {response.status}")
        return response

    def write(self, body: Json) -> web.Response:
        response = super().write(body)
        self.history.append(f"Lease by {body['spec']['holderIdentity']}, {body['metadata']}: {response.status}")
        return response

    @property
    def is_idle(self) -> bool:
        return not self._in_flight and not self._late

    async def pause(self) -> None:
        for _ in range(self.chance.choice([0, 0, 1, 3, 10, 30])):
            await asyncio.sleep(0)
        if self._happens(0.15):
            await asyncio.sleep(self.chance.random() * 0.01)

    def _happens(self, probability: float) -> bool:
        return self.chance.random() < probability

    def create(self, name: str) -> None:
        """Create a pod that requests a card, with a uid of its own."""
        self.add(name, {CARD: 1})["metadata"]["uid"] = f"uid-{next(self._uids)}"
        self.change(name, {})

    def change(self, name: str, change: Json) -> None:
        super().change(name, change)
        self._report(self.pods[name], is_deleted=False)

    def delete(self, name: str) -> None:
        pod = self.pods.pop(name)
        self.history.append(f"pod {name} is deleted")
        pod["metadata"]["resourceVersion"] = self.next_version()
        self._report(pod, is_deleted=True)

    def _report(self, pod: Json, *, is_deleted: bool) -> None:
        self.changes.append(Change(msgspec.convert(copy.deepcopy(pod), DevicePod), is_deleted))

    def bound(self) -> list[str]:
        return [name for name, pod in self.pods.items() if pod["spec"].get("nodeName")]

    def cards_in_use(self) -> list[str]:
        pods = [self.pods[name] for name in self.bound()]
        texts = [pod["metadata"]["annotations"][ANNOTATION] for pod in pods if pod.get("status") != {"phase": "Failed"}]
        return [
            place
            for text in texts
            for container in json.loads(text)["runningcontainer"].values()
            for place in container["allocatefrom"].values()
        ]


class LaggingReplica(DeviceReplica):
    """A replica whose watch of pods reports changes when it is told to."""

    reported = 0

    def report(self, changes: Sequence[Change], most: int) -> None:
        for change in changes[self.reported : self.reported + most]:
            self.reported += 1
            if change.is_deleted:
                self.pods.remove(change.pod.key)
            else:
                self.pods.upsert(change.pod)

    async def know_lease(self) -> None:
        while not self.store.knows("n", self.account.uid):
            try:
                await self.reserver.ensure_lease(self.account)
            except LarderError:
                continue  # the server fails at random


class Fault(StrEnum):
    """What happens in some runs; a request of a caller that gave up may still arrive, so never with minutes passing."""

    CALLERS_GIVE_UP = "callers give up"
    MINUTES_PASS = "minutes pass"
    LEASE_IS_DELETED = "lease is deleted"


class Run:
    """One run: `step` does one thing at random."""

    def __init__(
        self, server: UnreliableServer, replicas: Sequence[LaggingReplica], clock: LaterClock, fault: Fault
    ) -> None:
        self.fault = fault
        self.server, self.replicas, self.chance, self.clock = server, replicas, server.chance, clock
        self.bindings: set[asyncio.Task[str]] = set()

    def step(self) -> None:
        steps: dict[Callable[[], None], int] = {self._bind: 55, self._report: 20, self._end_pod: 10}
        if self.fault is Fault.MINUTES_PASS:
            steps[self._let_minutes_pass] = 4
        elif self.fault is Fault.LEASE_IS_DELETED:
            steps[self._delete_lease] = 1
        (chosen,) = self.chance.choices(list(steps), list(steps.values()))
        chosen()

    def bind(self, name: str, replica: DeviceReplica) -> asyncio.Task[str]:
        uid = self.server.pods[name]["metadata"]["uid"]
        args = ExtenderBindingArgs(pod_name=name, pod_namespace="default", pod_uid=uid, node="n")
        task = asyncio.create_task(replica.try_to_bind(args))
        self.bindings.add(task)
        task.add_done_callback(self.bindings.discard)
        return task

    def _bind(self) -> None:
        task = self.bind(self.chance.choice(NAMES), self.chance.choice(self.replicas))
        if self.fault is Fault.CALLERS_GIVE_UP and self.chance.random() < 0.1:
            asyncio.get_running_loop().call_later(self.chance.random() * 0.01, task.cancel)

    def _report(self) -> None:
        self.chance.choice(self.replicas).report(self.server.changes, self.chance.choice([1, 2, 5, 100]))

    def _end_pod(self) -> None:
        if bound := self.server.bound():
            name = self.chance.choice(bound)
            if self.chance.random() < 0.5:
                self.server.change(name, {"status": {"phase": "Failed"}})
            self.server.delete(name)
            self.server.create(name)

    def _let_minutes_pass(self) -> None:
        """Pass the time after which reservations expire; no request is in flight for that long."""
        if not self.bindings and self.server.is_idle:
            self.clock.passed_s += EXPIRES_S + 1

    def _delete_lease(self) -> None:
        self.server.lease = None
        self.server.history.append("the Lease is deleted")

    async def settle(self) -> None:
        """Wait until nothing is in flight, and let the watches report everything."""
        await asyncio.gather(*self.bindings, return_exceptions=True)
        while not self.server.is_idle:  # noqa: ASYNC110 - requests of callers that gave up still take effect
            await asyncio.sleep(0.01)
        for replica in self.replicas:
            replica.report(self.server.changes, len(self.server.changes))


def shared_cards(server: UnreliableServer) -> str:
    """Return which cards several pods got, or an empty string."""
    cards = server.cards_in_use()
    return "" if len(cards) == len(set(cards)) else f"several pods got one card: {cards}"


async def disturb(run: Run) -> str:
    """Take all steps at random; return whether pods got the same card."""
    for _ in range(STEPS):
        run.step()
        await run.server.pause()
        if found := shared_cards(run.server):
            return found
    await run.settle()
    return shared_cards(run.server)


async def empty(run: Run) -> str:
    """Delete all pods on the node; return which a replica counts nevertheless."""
    for name in run.server.bound():
        run.server.delete(name)
    await run.settle()
    counted = [uid for replica in run.replicas for uid in replica.account.pods]
    return f"replicas still count {counted}" if counted else ""


async def fill(run: Run) -> str:
    """Bind a pod to each card, and return why that failed; a replica waits for reservations that it first sees now."""
    run.server.is_reliable = True
    for name in "yz":
        run.server.create(name)
        if await run.bind(name, run.replicas[0]):
            run.clock.passed_s += EXPIRES_S + 1
            if reason := await run.bind(name, run.replicas[0]):
                return f"a card is lost: {reason}"
    return shared_cards(run.server)


async def try_seed(seed: int, fault: Fault, state: Path) -> str:
    """Return what went wrong in one run and what the server did, or an empty string."""
    server, clock = UnreliableServer(random.Random(seed)), LaterClock()
    async with connected(server.answer, state) as kube:
        replicas = [LaggingReplica(kube, name, clock=clock) for name in ("one", "two")]
        for name in NAMES:
            server.create(name)
        for replica in replicas:
            replica.add_node(CARDS)
            await replica.know_lease()
        run = Run(server, replicas, clock, fault)
        found = await disturb(run) or await empty(run) or await fill(run)
        return "\n".join([found, *server.history]) if found else ""


def main(seeds: int = 100, first: int = 0) -> int:
    """Try seeds with all faults; return 1 if something went wrong."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    bad = 0
    for seed in range(first, first + seeds):
        for fault in Fault:
            with tempfile.TemporaryDirectory() as state:
                found = asyncio.run(try_seed(seed, fault, Path(state)))
            if found:
                bad += 1
                sys.stdout.write(f"seed {seed}, {fault}: {found}\n")
    sys.stdout.write(f"{bad} of {seeds * len(Fault)} runs went wrong\n")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
