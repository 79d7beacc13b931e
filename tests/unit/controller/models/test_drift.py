"""When sources are checked for drift: spread over the period, and not while a server has requested a pause."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from controller.models.drift import DriftChecker, is_immutable
from controller.placement.demand import Demand
from controller.placement.demand_of_kind import cache_demand
from controller.state.keys import ModelKey
from shared.errors import AuthDenied, LarderError, RateLimited, Unreachable
from tests.builders.cluster import cache

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PERIOD_S = 3600.0


@dataclass
class Looking:
    """A drift watch with its own clock, which always waits for the middle of a range, and scripted sources."""

    period_s: float = PERIOD_S
    now: float = 1000.0
    answers: dict[str, str | LarderError] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.released.set()
        self.done: asyncio.Queue[ModelKey] = asyncio.Queue()
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.watch = DriftChecker(
            self._look, self.period_s, lambda: self.now, self.done.put_nowait, lambda least, most: (least + most) / 2
        )

    async def _look(self, demand: Demand) -> str:
        self.asked.append(demand.uid)
        self.begun.put_nowait(demand.uid)
        await self.released.wait()
        answer = self.answers.get(demand.uid, COMMIT)
        if isinstance(answer, LarderError):
            raise answer
        return answer

    async def check(self, name: str, uri: str = "") -> None:
        asked = demand(name, uri)
        self.watch.start(ModelKey("ClusterModelCache", "", name), asked)
        async with asyncio.timeout(60):
            await self.done.get()

    def message(self, name: str) -> str:
        seen = self.watch.upstream_of(f"uid-{name}", demand(name).uri)
        return seen.failure.reason if seen and seen.failure else ""


def demand(name: str, uri: str = "") -> Demand:
    return cache_demand("ClusterModelCache", cache(name, uri=uri))


@pytest.mark.parametrize(
    ("uri", "immutable"),
    [
        ("hf://org/m@main", False),
        ("hf://org/m@v1.0", False),
        (f"hf://org/m@{COMMIT}", True),
        (f"hf://org/m@{COMMIT[:39]}", False),
        (f"oci://reg.example/m@sha256:{'a' * 64}", True),
        ("oci://reg.example/m:latest", False),
        ("s3://bucket/prefix", False),
        ("https://host.example/m.gguf", False),
        ("ftp://nobody/serves", True),
    ],
)
def test_uris_with_a_commit_or_digest_are_immutable(uri: str, immutable: bool) -> None:  # noqa: FBT001 - a parameter of the test
    assert is_immutable(uri) is immutable


async def test_the_first_drift_check_is_spread_over_the_period_and_period_zero_disables_checks() -> None:
    looking = Looking()
    assert looking.watch.next_check_in_s("uid-m") == PERIOD_S / 2
    looking.now += PERIOD_S
    assert looking.watch.next_check_in_s("uid-m") == 0
    assert Looking(period_s=0).watch.next_check_in_s("uid-m") is None


async def test_the_upstream_revision_is_known_until_it_is_reset() -> None:
    looking = Looking()
    await looking.check("m")
    seen = looking.watch.upstream_of("uid-m", "hf://org/m@main")
    assert seen is not None
    assert (seen.revision, seen.failure) == (COMMIT, None)
    assert looking.watch.upstream_of("uid-m", "hf://org/other@main") is None
    assert looking.watch.next_check_in_s("uid-m") == PERIOD_S
    looking.watch.reset("uid-m")
    assert looking.watch.upstream_of("uid-m", "hf://org/m@main") is None


async def test_a_drift_check_under_way_is_discarded_when_the_source_is_resolved() -> None:
    looking = Looking()
    looking.released.clear()
    looking.watch.start(ModelKey("ClusterModelCache", "", "m"), demand("m"))
    async with asyncio.timeout(60):
        await looking.begun.get()
    assert looking.watch.next_check_in_s("uid-m") is None
    looking.watch.reset("uid-m")
    looking.released.set()
    async with asyncio.timeout(60):
        await looking.done.get()
    assert looking.watch.upstream_of("uid-m", "hf://org/m@main") is None


async def test_a_drift_check_ends_with_its_object_and_leaves_nothing_behind() -> None:
    looking = Looking()
    looking.released.clear()
    looking.watch.start(ModelKey("ClusterModelCache", "", "m"), demand("m"))
    async with asyncio.timeout(60):
        await looking.begun.get()
    looking.watch.forget("uid-m")
    looking.released.set()
    async with asyncio.timeout(60):
        await looking.done.get()
    assert looking.watch.upstream_of("uid-m", demand("m").uri) is None
    assert not looking.watch._due


async def test_a_failure_is_checked_again_soon_and_a_refusal_after_a_period() -> None:
    looking = Looking(answers={"uid-m": Unreachable("no route"), "uid-n": AuthDenied("no")})
    await looking.check("m")
    await looking.check("n")
    assert (looking.message("m"), looking.watch.next_check_in_s("uid-m")) == ("Unreachable", 900)
    assert (looking.message("n"), looking.watch.next_check_in_s("uid-n")) == ("AuthDenied", PERIOD_S)


async def test_a_rate_limit_pauses_the_drift_checks_of_all_models_of_that_server() -> None:
    looking = Looking(answers={"uid-m": RateLimited("slower", 2000.0)})
    await looking.check("m")
    assert (looking.message("m"), looking.watch.next_check_in_s("uid-m")) == ("RateLimited", 2200)
    await looking.check("n")
    assert looking.asked == ["uid-m"]
    assert looking.watch.next_check_in_s("uid-n") == 2500
    await looking.check("s", "s3://bucket/prefix")
    assert looking.asked == ["uid-m", "uid-s"]
    looking.now += 2500
    await looking.check("n")
    assert looking.asked == ["uid-m", "uid-s", "uid-n"]


async def test_at_most_two_drift_checks_run_at_a_time() -> None:
    looking = Looking()
    looking.released.clear()
    for name in ("m", "n", "o"):
        looking.watch.start(ModelKey("ClusterModelCache", "", name), demand(name))
        looking.watch.start(ModelKey("ClusterModelCache", "", name), replace(demand(name), serving="again"))
    async with asyncio.timeout(60):
        for _ in range(2):
            await looking.begun.get()
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(looking.asked) == 2
    looking.released.set()
    async with asyncio.timeout(60):
        for _ in range(3):
            await looking.done.get()
    assert sorted(looking.asked) == ["uid-m", "uid-n", "uid-o"]


async def test_the_upstream_revision_is_forgotten_when_leadership_is_lost() -> None:
    looking = Looking()
    await looking.check("m")
    await looking.watch.stop()
    assert looking.watch.upstream_of("uid-m", "hf://org/m@main") is None
