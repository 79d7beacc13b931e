"""The leader task that deletes unreferenced lists of files."""

from controller.garbage.collector import GarbageCollector
from controller.manager.controller import LeaderTask


def garbage_task(collector: GarbageCollector) -> LeaderTask:
    """Return the leader task of the collector."""
    return LeaderTask("garbage", collector.run)
