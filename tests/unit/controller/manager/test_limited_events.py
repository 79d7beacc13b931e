"""Events that are written at most once per hour."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controller.manager.event_recorder import EventRecorder
from controller.manager.limited_events import LimitedEvents
from shared.kube.events import EventSubject
from tests.builders.api_server import Objects, serving

SERVICE = EventSubject("serving.kserve.io/v1beta1", "InferenceService", "team", "llama", "uid-1")
OTHER = EventSubject("v1", "Pod", "team", "llama-0", "uid-2")
_PATH = "/api/v1/namespaces/team/events"


async def test_each_object_gets_an_event_per_reason_at_most_hourly(tmp_path: Path) -> None:
    server, now_s, written = Objects(), [0.0], list[tuple[str, str]]()

    def event(body: dict[str, Any]) -> dict[str, Any]:
        written.append((body["involvedObject"]["name"], body["message"]))
        return body

    server.posts[_PATH] = event
    async with serving(server, tmp_path) as kube:
        events = LimitedEvents(EventRecorder(kube, lambda: datetime.now(UTC)), lambda: now_s[0])
        for message in ("first", "again"):
            await events.report("key", [SERVICE, SERVICE], "Why", message)
        assert written == [("llama", "first")]
        await events.report("key", [SERVICE, OTHER], "Why", "other")
        await events.report("key", [SERVICE], "Why", "news", state_key="another state")
        assert written[1:] == [("llama-0", "other"), ("llama", "news")]
        now_s[0] = 3600.0
        await events.report("key", [SERVICE], "Why", "an hour later")
        events.forget("key")
        await events.report("key", [SERVICE], "Why", "forgotten")
        assert written[3:] == [("llama", "an hour later"), ("llama", "forgotten")]


async def test_events_with_made_up_reasons_are_limited_and_forgotten_after_an_hour(tmp_path: Path) -> None:
    server, now_s = Objects(), [0.0]
    server.posts[_PATH] = lambda body: body
    async with serving(server, tmp_path) as kube:
        events = LimitedEvents(EventRecorder(kube, lambda: datetime.now(UTC)), lambda: now_s[0])
        for number in range(150):
            await events.report("key", [SERVICE], "Why", "made up", state_key=str(number))
        assert len(server.asked) == 100
        now_s[0] = 3601.0
        await events.report("other", [OTHER], "Why", "first")
        assert list(events._written) == ["other"]


async def test_messages_of_any_length_take_little_memory_and_stay_distinct(tmp_path: Path) -> None:
    server, news = Objects(), "x" * 200_000
    server.posts[_PATH] = lambda body: body
    async with serving(server, tmp_path) as kube:
        events = LimitedEvents(EventRecorder(kube, lambda: datetime.now(UTC)), lambda: 0.0)
        for state in ("a", "b", "a"):
            await events.report("key", [SERVICE], "Why", "m", state_key=news + state)
        assert len(server.asked) == 2
        assert len(repr(events._written)) < 1000


async def test_events_with_made_up_keys_are_limited_for_each_namespace(tmp_path: Path) -> None:
    server, now_s = Objects(), [0.0]
    for namespace in ("team", "other"):
        server.posts[f"/api/v1/namespaces/{namespace}/events"] = lambda body: body
    async with serving(server, tmp_path) as kube:
        events = LimitedEvents(EventRecorder(kube, lambda: datetime.now(UTC)), lambda: now_s[0])
        for number in range(300):
            await events.report(number, [OTHER], "Why", "made up")
        assert len(server.asked) == 200
        await events.report("key", [EventSubject("v1", "Pod", "other", "p", "uid-3")], "Why", "theirs")
        assert len(server.asked) == 201
        now_s[0] = 10.0
        for number in range(300):
            await events.report(number, [OTHER], "Why", "made up")
        assert len(server.asked) == 211
        now_s[0] = 7200.0
        await events.report("key", [OTHER], "Why", "later")
        assert list(events._budgets) == ["team"]
