"""How often pods and their owners get an event for a reason."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.manager.event_recorder import EventRecorder
from controller.manager.limited_events import LimitedEvents
from controller.manager.pod_events import PodEvents
from shared.api.core import Pod
from shared.json_object import Json
from tests.builders.api_server import Objects, serving
from tests.builders.clock import Clock
from tests.builders.cluster import meta

EVENTS = "/api/v1/namespaces/ns/events"
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "owner", "controller": True}


class PodRecorder:
    """Pod events, their clock, and the Events that were posted."""

    def __init__(self, events: PodEvents, clock: Clock, posted: list[Json]) -> None:
        self.events, self.clock, self._posted = events, clock, posted

    def take(self) -> list[tuple[str, str]]:
        taken = [(event["involvedObject"]["name"], event["reason"]) for event in self._posted]
        self._posted.clear()
        return taken


@pytest.fixture
async def recorder(tmp_path: Path) -> AsyncIterator[PodRecorder]:
    objects, posted, clock = Objects(), list[Json](), Clock()

    def post(event: Json) -> Json:
        posted.append(event)
        return event

    objects.posts[EVENTS] = post
    async with serving(objects, tmp_path) as kube:
        recorder = EventRecorder(kube, lambda: datetime(2026, 1, 1, tzinfo=UTC))
        yield PodRecorder(PodEvents(LimitedEvents(recorder, clock)), clock, posted)


def pods(count: int = 1) -> tuple[Pod, ...]:
    owned = (meta(f"p{i}", namespace="ns", owner_references=[OWNER]) for i in range(count))
    return tuple(Pod(metadata=metadata) for metadata in owned)


async def test_an_event_is_repeated_hourly_and_at_once_if_its_message_changes(recorder: PodRecorder) -> None:
    for news in ("10 %", "10 %", "20 %"):
        await recorder.events.report("key", pods(), "Waiting", "m", state_key=news, owners=False)
    assert recorder.take() == [("p0", "Waiting"), ("p0", "Waiting")]
    recorder.clock.now += 3600
    await recorder.events.report("key", pods(), "Waiting", "m", state_key="20 %", owners=False)
    assert recorder.take() == [("p0", "Waiting")]


async def test_at_most_five_pods_get_an_event_and_their_owner_gets_one(recorder: PodRecorder) -> None:
    await recorder.events.report("key", pods(100), "Gone", "m")
    assert recorder.take() == [("p0", "Gone"), ("web", "Gone"), *((f"p{i}", "Gone") for i in range(1, 5))]


async def test_a_forgotten_event_is_reported_again(recorder: PodRecorder) -> None:
    await recorder.events.report("key", pods(), "Gone", "m", owners=False)
    recorder.events.forget("key")
    await recorder.events.report("key", pods(), "Gone", "m", owners=False)
    assert len(recorder.take()) == 2


@pytest.mark.parametrize("part", ["apiVersion", "kind", "name", "uid"])
async def test_an_owner_that_cannot_exist_gets_no_event(recorder: PodRecorder, part: str) -> None:
    invented = OWNER | {part: "x" * 1_000_000}
    pod = Pod(metadata=meta("p0", namespace="ns", owner_references=[invented]))
    await recorder.events.report("key", (pod,), "Gone", "m")
    assert recorder.take() == [("p0", "Gone")]
