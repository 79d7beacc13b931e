import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from agent.reconciler.status import fit_size
from agent.reconciler.status_writer import StatusWriter, figures_changed, transition_fields, with_transition_times
from shared.api.meta import Condition
from shared.api.model_node import PATH, EntryStatus, ModelNode, ModelNodeSpec, ModelNodeStatus
from shared.kube.objects import Meta
from shared.kube.transport import Kube
from tests.builders.api_server import Objects, serving

NOW = "2026-11-21T12:00:00Z"
BEFORE = "2026-11-20T12:00:00Z"


def status(*entries: EntryStatus, **fields: int) -> ModelNodeStatus:
    return msgspec.structs.replace(ModelNodeStatus(node_uid="n", entries=list(entries)), **fields)


def entry(phase: str, since: str = "", message: str = "") -> EntryStatus:
    return EntryStatus(id="llama", revision="r1", phase=phase, since=since, message=message)


def test_a_phase_keeps_its_date_until_it_changes() -> None:
    kept = with_transition_times(status(entry("Ready", message="new")), status(entry("Ready", BEFORE)), NOW)
    assert [(e.since, e.message) for e in kept.entries] == [(BEFORE, "new")]
    changed = with_transition_times(status(entry("Repairing")), status(entry("Ready", BEFORE)), NOW)
    assert [e.since for e in changed.entries] == [NOW]
    assert [e.since for e in with_transition_times(status(entry("Pending")), status(), NOW).entries] == [NOW]


def test_a_condition_keeps_its_date_until_its_status_changes() -> None:
    def reported(value: str, since: str = "", message: str = "") -> ModelNodeStatus:
        condition = Condition(
            type="StoreOnRootDisk", status=value, reason="R", message=message, last_transition_time=since
        )
        return ModelNodeStatus(conditions=[condition])

    kept = with_transition_times(reported("True", message="new"), reported("True", BEFORE), NOW)
    assert [(c.last_transition_time, c.message) for c in kept.conditions] == [(BEFORE, "new")]
    for before in (reported("False", BEFORE), ModelNodeStatus()):
        assert [c.last_transition_time for c in with_transition_times(reported("True"), before, NOW).conditions] == [
            NOW
        ]


def test_changed_figures_and_messages_are_not_a_transition() -> None:
    assert transition_fields(status(entry("Failed", message="need 5"), used=1)) == transition_fields(
        status(entry("Failed", message="need 6"), used=2, disk_free=9)
    )


def test_a_changed_phase_limit_or_generation_is_a_transition() -> None:
    known = transition_fields(status(entry("Ready")))
    assert transition_fields(status(entry("Repairing"))) != known
    assert transition_fields(status(entry("Ready"), limit=5)) != known
    assert transition_fields(status(entry("Ready"), observed_generation=2)) != known
    assert transition_fields(status()) != known


GIB = 2**30


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        ({"disk_free": 50 * GIB}, {"disk_free": 50 * GIB + GIB // 2}, False),
        ({"disk_free": 50 * GIB}, {"disk_free": 52 * GIB}, True),
        ({"disk_free": 900 * GIB}, {"disk_free": 905 * GIB}, False),
        ({"disk_free": 900 * GIB}, {"disk_free": 890 * GIB}, True),
        ({"used": 10 * GIB, "disk_free": 10}, {"used": 12 * GIB, "disk_free": 10}, True),
        ({"reserved": 0}, {"reserved": 2 * GIB}, True),
    ],
)
def test_a_figure_counts_as_changed_only_beyond_a_step(
    before: dict[str, int], after: dict[str, int], *, moved: bool
) -> None:
    assert figures_changed(status(**after), status(**before)) is moved


class Node(Objects):
    """A ModelNode that counts its writes."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[dict[str, Any]] = []
        self.create("m")

    def create(self, uid: str) -> None:
        """Put a new ModelNode in place of the one that is there."""
        metadata = {"name": "n", "uid": uid, "resourceVersion": "1"}
        self.objects[f"{PATH}/n/status"] = {"metadata": metadata, "spec": {"nodeUID": "n"}}

    async def answer(self, request: web.Request) -> web.Response:
        if request.method == "PUT":
            body = await request.json()
            self.objects[request.path] = body
            self.written.append(body["status"])
            return web.json_response(body)
        return await super().answer(request)


class Rounds:
    """A status writer whose rounds and clock the test controls."""

    def __init__(self, kube: Kube, node: Node) -> None:
        self.now, self.node = 0.0, node
        self.status_writer = StatusWriter(
            kube, "n", now=lambda: NOW, clock=lambda: self.now, uniform=lambda _, high: high
        )

    async def offer(self, offered: ModelNodeStatus, at_s: float, uid: str = "m") -> int:
        """Offer a status and run a round; return the number of writes so far."""
        self.now = at_s
        self.status_writer.offer(offered, uid)
        await self.status_writer._write()
        return len(self.node.written)


@pytest.fixture
async def kube_node(tmp_path: Path) -> AsyncIterator[tuple[Kube, Node]]:
    node = Node()
    async with serving(node, tmp_path) as kube:
        yield kube, node


@pytest.fixture
def rounds(kube_node: tuple[Kube, Node]) -> Rounds:
    return Rounds(*kube_node)


async def test_small_changes_of_free_disk_space_are_written_every_ten_minutes(rounds: Rounds) -> None:
    free = [500 * GIB - i * 2**20 for i in range(200)]
    assert await rounds.offer(status(entry("Ready"), disk_free=free[0]), 0) == 1
    assert await rounds.offer(status(entry("Ready"), disk_free=free[1]), 30) == 2, "changed figures are written"
    for turn in range(2, 21):
        assert await rounds.offer(status(entry("Ready"), disk_free=free[turn]), 30.0 * turn) == 2
    assert await rounds.offer(status(entry("Ready"), disk_free=free[21]), 630) == 3, "written ten minutes later"
    assert rounds.node.written[-1]["diskFree"] == free[21]


async def test_the_progress_of_a_download_is_written_at_most_every_three_minutes(rounds: Rounds) -> None:
    writes = [await rounds.offer(status(entry("Downloading"), used=i * 30 * GIB), 30.0 * i) for i in range(22)]
    assert writes[-1] <= 2 + 660 // 180
    assert writes[8] == 3


async def test_a_transition_is_written_at_once_and_only_once(rounds: Rounds) -> None:
    assert await rounds.offer(status(entry("Downloading")), 0) == 1
    assert await rounds.offer(status(entry("Ready")), 1) == 2
    assert await rounds.offer(status(entry("Ready")), 10_000) == 2, "an unchanged status is not written again"


async def test_a_model_node_that_was_deleted_and_created_again_gets_the_same_status(rounds: Rounds) -> None:
    assert await rounds.offer(status(entry("Ready")), 0) == 1
    rounds.node.create("another")
    assert await rounds.offer(status(entry("Pending")), 1) == 1, "the status of the deleted one is not written to it"
    assert await rounds.offer(status(entry("Ready")), 2, "another") == 2
    assert await rounds.offer(status(entry("Ready")), 3, "another") == 2


async def test_a_status_that_the_api_server_has_lost_is_written_again(rounds: Rounds) -> None:
    done, restored = status(entry("Ready")), status(entry("Downloading"))
    assert await rounds.offer(done, 0) == 1
    rounds.status_writer.observe(stored(done))
    assert await rounds.offer(done, 1) == 1, "it is there"
    rounds.node.objects[f"{PATH}/n/status"]["status"] = msgspec.to_builtins(restored)  # from a backup of etcd
    rounds.status_writer.observe(stored(restored))
    assert await rounds.offer(done, 2) == 2
    rounds.status_writer.observe(stored(restored))  # a late event
    assert await rounds.offer(done, 3) == 2, "a read shows that it is there"


def stored(found: ModelNodeStatus) -> ModelNode:
    return ModelNode(metadata=Meta(name="n", uid="m"), spec=ModelNodeSpec(node_uid="n"), status=found)


async def test_the_writer_writes_an_offered_status(rounds: Rounds) -> None:
    running = asyncio.create_task(rounds.status_writer.run())
    rounds.status_writer.offer(status(entry("Ready"), used=7), "m")
    await _until(lambda: bool(rounds.node.written))
    running.cancel()
    assert rounds.node.written[0]["used"] == 7


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - the server of the test gives no signal
            await asyncio.sleep(0.01)


async def test_a_thousand_transitions_are_batched_into_few_writes(kube_node: tuple[Kube, Node]) -> None:
    """The clock advances only with the writer's waits; a transition happens in each of them."""
    kube, node = kube_node
    waits: list[float] = []
    ready, all_ready = 0, asyncio.Event()

    async def sleep(seconds: float) -> None:
        nonlocal ready
        if ready >= 1000:
            all_ready.set()
            await asyncio.Event().wait()  # until it is cancelled, so that no other write is counted
        waits.append(seconds)
        ready += max(1, round(20 * seconds))  # twenty entries become Ready per second
        status_writer.offer(many(ready), "m")
        await asyncio.sleep(0)

    status_writer = StatusWriter(kube, "n", now=lambda: NOW, sleep=sleep)
    status_writer.offer(many(0), "m")
    running = asyncio.create_task(status_writer.run())
    await asyncio.wait_for(all_ready.wait(), 60)
    running.cancel()
    reported = sum(len(msgspec.json.encode(status)) for status in node.written)
    assert reported / sum(waits) <= 1.2 * 64 * 1024, "bytes per second"
    assert len(node.written) == len(waits) + 1
    assert len(waits) <= 20


def many(ready: int) -> ModelNodeStatus:
    phases = ["Ready"] * min(ready, 1000) + ["Waiting"] * max(0, 1000 - ready)
    reported = (
        EntryStatus(id=f"team-a_model-{i:04}", revision="c" * 40, phase=phase, observed="Present", verified="digest")
        for i, phase in enumerate(phases)
    )
    return status(*reported)


def test_a_status_with_long_messages_is_cut_to_fit_the_object() -> None:
    reported = [EntryStatus(id=f"m-{i:04}", revision="c" * 40, phase="Failed", message="x" * 2000) for i in range(1000)]
    cut = fit_size(status(*reported))
    assert len(msgspec.json.encode(cut)) <= 384 * 1024
    assert [(e.id, e.phase) for e in cut.entries] == [(e.id, e.phase) for e in reported]
    few = status(*reported[:10])
    assert fit_size(few) == few
