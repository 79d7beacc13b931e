"""What the Elector relies on in every Lock: the in-memory twin, and the Lease on a real API server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from uuid import uuid4

import pytest

from rig.control_plane import ControlPlane
from shared.kube.elector import Lock
from shared.kube.errors import Conflict
from shared.kube.lease import LeaseLock
from shared.kube.memory_lock import LockRecord, MemoryLock
from shared.kube.transport import connect
from tests.builders.clock import Clock

LEASE_S = 15.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "lease"])
async def candidate(request: pytest.FixtureRequest, clock: Clock) -> AsyncIterator[Callable[[str], Lock]]:
    """Return a factory of candidates for one lock that nobody holds."""
    if request.param == "memory":
        record = LockRecord()
        yield lambda identity: MemoryLock(record, identity, LEASE_S, clock)
        return
    control_plane: ControlPlane = request.getfixturevalue("control_plane")
    name = f"lock-{uuid4().hex[:12]}"
    async with connect(control_plane.kubeconfig) as kube:
        yield lambda identity: LeaseLock(kube, "default", name, identity, LEASE_S, clock=clock)


Candidate = Callable[[str], Lock]


async def test_the_first_candidate_acquires_and_keeps_the_lock(candidate: Candidate) -> None:
    first, second = candidate("a"), candidate("b")
    assert await first.acquire()
    assert not await second.acquire()
    assert await first.acquire()


async def test_only_one_of_many_concurrent_candidates_acquires_the_lock(candidate: Candidate) -> None:
    results = await asyncio.gather(*(candidate(str(n)).acquire() for n in range(20)), return_exceptions=True)
    assert results.count(True) == 1
    assert all(isinstance(result, bool | Conflict) for result in results)


async def test_an_expired_lease_can_be_acquired_by_another_candidate(candidate: Candidate, clock: Clock) -> None:
    first, second = candidate("a"), candidate("b")
    assert await first.acquire()
    assert not await second.acquire()
    clock.now = LEASE_S - 1
    assert not await second.acquire()
    clock.now = LEASE_S
    assert await second.acquire()
    assert not await first.acquire()


async def test_a_renewal_extends_the_lease_by_its_full_duration(candidate: Candidate, clock: Clock) -> None:
    first, second = candidate("a"), candidate("b")
    assert await first.acquire()
    clock.now = LEASE_S - 1
    assert await first.acquire()
    assert not await second.acquire()
    clock.now = 2 * LEASE_S - 2
    assert not await second.acquire()
    clock.now = 2 * LEASE_S - 1
    assert await second.acquire()


async def test_a_released_lease_is_free_at_once(candidate: Candidate) -> None:
    first, second = candidate("a"), candidate("b")
    assert await first.acquire()
    assert not await second.acquire()
    await first.release()
    assert await second.acquire()
    assert not await first.acquire()


async def test_only_the_holder_can_release_the_lock(candidate: Candidate) -> None:
    first, second, third = candidate("a"), candidate("b"), candidate("c")
    assert await first.acquire()
    await second.release()
    assert not await third.acquire()
