"""Lists of files that nothing refers to, removed while this replica leads."""

from controller.garbage.collector import GarbageCollector
from controller.manager.controller import LeaderTask


def garbage_task(collector: GarbageCollector) -> LeaderTask:
    """Return what collects."""
    return LeaderTask("garbage", collector.run)
