"""One resolution per model and generation, outside the queue, with delayed retries."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import pytest

from controller.manager.controller import QueueKey
from controller.models.resolver import Resolver
from controller.models.view import ResolverAnswer
from controller.placement.demand import Demand, Resolution
from controller.placement.demand_of_kind import cache_demand
from controller.sources.credentials import Secrets
from controller.sources.manifests import Manifests
from controller.state.keys import ModelKey
from rig.scripted_http import ScriptedServer, reply, scripted
from shared.kube.transport import Kube
from shared.selection.choice import Selection
from shared.sources.settings import settings_from_environ
from tests.builders.cluster import cache

KEY = ModelKey("ClusterModelCache", "", "m")


class Asking:
    """A resolver with its own clock, which always waits for the end of a range, and the resolutions that it reports."""

    def __init__(self, kube: Kube, hub: str) -> None:
        self.now = 1000.0
        self.done: asyncio.Queue[QueueKey] = asyncio.Queue()
        settings = settings_from_environ({"HF_ENDPOINT": hub, "LARDER_ALLOW_ADDRESSES": "127.0.0.1/32"})
        self.resolver = Resolver(
            Secrets(kube, "ns", settings),
            Manifests(kube, "ns"),
            settings,
            lambda: self.now,
            self.done.put_nowait,
            _most,
        )

    async def ask(self, demand: Demand, generation: int = 1) -> None:
        self.resolver.start(KEY, demand, generation)
        async with asyncio.timeout(60):
            assert await self.done.get() == KEY

    def waits_s(self, generation: int = 1) -> float:
        return self.resolver.wait_s("uid-m", generation)

    def reason(self, generation: int = 1) -> str:
        failure = self.resolver.failure_of("uid-m", generation)
        return failure.reason if failure else ""


def _most(_least: float, most: float) -> float:
    return most


async def _resolved(_self: Resolver, demand: Demand) -> Resolution:
    return Resolution(demand.uri, "c", "d" * 64, 5)


@pytest.fixture
def hub() -> Iterator[ScriptedServer]:
    with scripted(lambda _: reply(404, b"{}", X_Error_Code="RepoNotFound")) as server:
        yield server


@pytest.fixture
def asking(kube: Kube, hub: ScriptedServer) -> Asking:
    return Asking(kube, hub.url)


def demand(uri: str = "hf://org/m", secret: str = "") -> Demand:
    return replace(cache_demand("ClusterModelCache", cache("m", uri=uri, revision="")), secret=secret)


async def test_a_failure_that_needs_action_is_retried_with_delays_of_up_to_half_an_hour(asking: Asking) -> None:
    waits = []
    for _ in range(7):
        await asking.ask(demand(secret="missing"))
        waits.append(asking.waits_s())
        asking.now += waits[-1]
    assert waits == [60, 120, 240, 480, 960, 1800, 1800]
    assert asking.reason() == "AuthDenied"


async def test_a_changed_object_is_resolved_at_once_with_a_new_back_off(asking: Asking) -> None:
    await asking.ask(demand(secret="missing"))
    await asking.ask(demand(secret="missing"))
    assert (asking.waits_s(1), asking.waits_s(2)) == (120, 0)
    assert (asking.reason(1), asking.reason(2)) == ("AuthDenied", "")
    await asking.ask(demand(secret="missing"), generation=2)
    assert (asking.waits_s(1), asking.waits_s(2)) == (0, 60)


async def test_a_passing_failure_is_retried_soon(asking: Asking, hub: ScriptedServer) -> None:
    hub.answer = lambda _: reply(500)
    await asking.ask(demand())
    assert (asking.reason(), asking.waits_s()) == ("Unreachable", 1)
    await asking.ask(demand())
    assert asking.waits_s() == 2


async def test_the_retry_time_stated_by_the_hub_is_respected(asking: Asking, hub: ScriptedServer) -> None:
    hub.answer = lambda _: reply(429, b"{}", Retry_After="100")
    await asking.ask(demand())
    assert (asking.reason(), asking.waits_s()) == ("RateLimited", 125)


async def test_an_answer_is_kept_for_its_source_until_it_is_recorded(asking: Asking) -> None:
    resolver, answer = asking.resolver, ResolverAnswer(Resolution("hf://org/m@main", "c", "d" * 64, 5))
    drops = (partial(resolver.discard_answer, "uid-m"), resolver.discard_answers, partial(resolver.forget, "uid-m"))
    for drop in drops:
        resolver._answers["uid-m"] = answer
        assert resolver.answer_of("uid-m", "hf://org/m@v2") is None
        assert resolver.answer_of("uid-m", "hf://org/m@main") == answer
        drop()
        assert resolver.answer_of("uid-m", "hf://org/m@main") is None


async def test_another_refresh_does_not_wait_for_the_last_ones_failure(asking: Asking) -> None:
    await asking.ask(demand(secret="missing"))
    assert (asking.waits_s(), asking.reason()) == (60, "AuthDenied")
    assert asking.resolver.wait_s("uid-m", 1, "now") == 0
    assert asking.resolver.failure_of("uid-m", 1, "now") is None
    await asking.ask(replace(demand(secret="missing"), refresh="now"))
    assert asking.resolver.wait_s("uid-m", 1, "now") == 60


async def test_a_drift_check_requests_only_the_commit(asking: Asking, hub: ScriptedServer) -> None:
    hub.answer = lambda _: reply(200, b'{"id": "org/m", "sha": "' + b"c" * 40 + b'"}', Content_Type="application/json")
    assert await asking.resolver.read_upstream_revision(demand()) == "c" * 40
    assert [a.target for a in hub.asked] == ["/api/models/org/m/revision/main"]


async def test_repeated_starts_of_a_resolution_run_it_once(asking: Asking) -> None:
    for _ in range(5):
        asking.resolver.start(KEY, demand(secret="missing"), 1)
    async with asyncio.timeout(60):
        await asking.done.get()
    assert asking.done.empty()
    assert asking.waits_s() == 60


async def test_many_refreshes_cause_one_request_at_a_time(asking: Asking, hub: ScriptedServer) -> None:
    for number in range(20):
        asking.resolver.start(KEY, replace(demand(), refresh=str(number)), 1)
    async with asyncio.timeout(60):
        await asking.done.get()
        await asking.ask(replace(demand(), refresh="19"))
    assert asking.done.empty()
    assert len(hub.asked) == 2


async def test_an_invalid_answer_of_the_hub_is_reported_and_retried(asking: Asking, hub: ScriptedServer) -> None:
    hub.answer = lambda _: reply(200, b'{"sha": 5, "siblings": "what"}', Content_Type="application/json")
    await asking.ask(demand())
    assert asking.reason() == "Unreachable"
    assert asking.waits_s() > 0


async def test_a_source_that_keeps_changing_is_resolved_with_growing_delays(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Resolver, "_resolve", _resolved)
    waits = []
    for _ in range(7):
        await asking.ask(demand())
        waits.append(asking.waits_s())
        asking.now += waits[-1] + 5
    assert waits == [10, 20, 40, 80, 160, 300, 300]
    asking.now += 600
    await asking.ask(demand())
    assert asking.waits_s() == 10
    await asking.ask(demand(), generation=2)
    assert asking.waits_s(2) == 10


async def test_a_success_resets_the_delay_of_earlier_failures(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    await asking.ask(demand(secret="missing"))
    monkeypatch.setattr(Resolver, "_resolve", _resolved)
    await asking.ask(demand())
    assert asking.waits_s() == 10


async def test_a_deleted_model_is_forgotten(asking: Asking) -> None:
    await asking.ask(demand(secret="missing"))
    asking.resolver.forget("uid-m")
    assert (asking.waits_s(), asking.reason()) == (0, "")


def of_namespace(namespace: str, name: str) -> tuple[ModelKey, Demand]:
    found = replace(demand(), kind="BaseModel", namespace=namespace, name=name, uid=f"{namespace}-{name}")
    return ModelKey("BaseModel", namespace, name), found


async def test_a_namespace_over_its_limit_waits_with_a_reason_and_others_do_not(asking: Asking) -> None:
    resolver = Resolver(
        asking.resolver.secrets, asking.resolver.manifests, asking.resolver.settings, lambda: asking.now,
        asking.done.put_nowait, _most, per_minute=10, now=lambda: datetime(2026, 6, 1, 12, 0, tzinfo=UTC),
    )  # fmt: skip

    def reason(uid: str) -> str:
        failure = resolver.failure_of(uid, 1)
        return failure.reason if failure else ""

    for i in range(25):
        key, found = of_namespace("greedy", f"m{i}")
        resolver.start(key, replace(found, secret="missing"), 1)
        await asyncio.sleep(0)
    key, found = of_namespace("other", "m")
    resolver.start(key, replace(found, secret="missing"), 1)
    resolver.start(KEY, demand(secret="missing"), 1)

    def asked() -> list[int]:
        return [i for i in range(25) if reason(f"greedy-m{i}") == "AuthDenied"]

    async with asyncio.timeout(60):
        while not (reason("other-m") and reason("uid-m") and len(asked()) >= 10):
            await asking.done.get()
    assert asked() == list(range(10))
    last = resolver.failure_of("greedy-m24", 1)
    assert last is not None
    assert last.reason == "TooManyResolutions"
    assert "namespace greedy has reached its limit of 10 resolutions per minute" in last.message
    assert "2026-06-01 12:01:30 UTC" in last.message
    await resolver.stop()


async def test_a_model_that_keeps_changing_has_at_most_two_pending_resolutions(asking: Asking) -> None:
    resolver = Resolver(
        asking.resolver.secrets, asking.resolver.manifests, asking.resolver.settings, lambda: asking.now,
        asking.done.put_nowait, _most, per_minute=1,
    )  # fmt: skip
    key, first = of_namespace("greedy", "m")
    for i in range(200):
        resolver.start(key, replace(first, selection=Selection(ignore=(f"{i}.bin",))), i)
        await asyncio.sleep(0)
    waiting = [task for task in resolver._running.values() if not task.done()]
    assert len(waiting) <= 2
    resolver.forget(first.uid)
    await asyncio.sleep(0)
    await resolver.stop()
    assert not resolver._running


async def test_a_failure_reports_its_attempt_and_the_time_of_the_next(asking: Asking, hub: ScriptedServer) -> None:
    hub.answer = lambda _: reply(503)
    for attempt in (1, 2, 3):
        await asking.ask(demand())
        failure = asking.resolver.failure_of("uid-m", 1)
        assert failure is not None
        assert f"(attempt {attempt}; the next is at 20" in failure.message


async def test_an_answer_for_a_model_that_is_gone_is_dropped(asking: Asking, hub: ScriptedServer) -> None:
    asked, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow(_: object) -> bytes:
        loop.call_soon_threadsafe(asked.set)
        go_on.wait(60)
        return reply(404, b"{}", X_Error_Code="RepoNotFound")

    hub.answer = slow
    asking.resolver.start(KEY, demand(), 1)
    await asked.wait()
    asking.resolver.forget("uid-m")
    go_on.set()
    assert await asking.done.get() == KEY
    assert not asking.resolver._attempts
    assert not asking.resolver._answers
