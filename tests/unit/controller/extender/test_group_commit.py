"""Which changes are committed together, and which outcome each caller gets."""

import asyncio
from collections.abc import Sequence

import pytest

from controller.extender.group_commit import GroupCommit


class Commits:
    """Commits numbers when released, and returns their squares; `groups` records the numbers of each commit."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.may_go = asyncio.Event()

    async def __call__(self, key: str, changes: Sequence[int]) -> Sequence[int | Exception]:
        self.groups.append(list(changes))
        await self.may_go.wait()
        if 13 in changes:
            raise LookupError(key)
        return [ValueError("odd") if change % 2 else change**2 for change in changes]


@pytest.fixture
async def commits() -> Commits:
    return Commits()


async def submitted(queue: GroupCommit[int, int], *changes: int, key: str = "n") -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(queue.submit(key, change)) for change in changes]
    await asyncio.sleep(0)
    return tasks


async def test_changes_that_arrive_during_a_commit_are_committed_together(commits: Commits) -> None:
    queue: GroupCommit[int, int] = GroupCommit(commits, 3)
    assert not queue.is_busy("n")
    tasks = await submitted(queue, 2, 4, 5, 6, 8)
    assert queue.is_busy("n")
    assert not queue.is_busy("other")
    commits.may_go.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [outcome for outcome in outcomes if isinstance(outcome, int)] == [4, 16, 36, 64]
    assert isinstance(outcomes[2], ValueError)
    assert commits.groups == [[2], [4, 5, 6], [8]]
    assert not queue.is_busy("n")


async def test_a_commit_of_one_key_does_not_delay_other_keys(commits: Commits) -> None:
    queue: GroupCommit[int, int] = GroupCommit(commits, 3)
    tasks = await submitted(queue, 2) + await submitted(queue, 4, key="other")
    assert commits.groups == [[2], [4]]
    commits.may_go.set()
    assert await asyncio.gather(*tasks) == [4, 16]


async def test_a_failed_commit_fails_only_for_the_callers_of_its_group(commits: Commits) -> None:
    queue: GroupCommit[int, int] = GroupCommit(commits, 2)
    tasks = await submitted(queue, 2, 13, 4, 6)
    commits.may_go.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [int, LookupError, LookupError, int]


async def test_a_caller_that_gives_up_leaves_the_others_to_the_next(commits: Commits) -> None:
    queue: GroupCommit[int, int] = GroupCommit(commits, 2)
    first, waiting, last = await submitted(queue, 2, 4, 6)
    waiting.cancel()
    first.cancel()
    commits.may_go.set()
    assert await last == 36
    assert first.cancelled()
    assert waiting.cancelled()
    assert commits.groups[0] == [2]
    assert not queue.is_busy("n")
