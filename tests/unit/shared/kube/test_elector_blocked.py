import time

from shared.kube.elector import Elector
from shared.kube.memory_lock import LockRecord, MemoryLock


async def test_leadership_is_known_to_be_lost_after_the_event_loop_was_blocked() -> None:
    seen: list[bool] = []

    async def work() -> None:
        seen.append(elector.leading)
        time.sleep(1.5)  # noqa: ASYNC251 - the blocked loop is the fault
        seen.append(elector.leading)

    elector = Elector(MemoryLock(LockRecord(), "a", 3), work, deadline_s=1, retry_s=0.5)
    await elector.run()
    assert seen == [True, False]
