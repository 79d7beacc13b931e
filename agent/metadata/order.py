"""The order for a child process that reads metadata."""

import sys

from shared.metadata.reading.confined import ChildOrder

COMMAND = (sys.executable, "-m", "agent.metadata.child")


class SnapshotOrder(ChildOrder, frozen=True, kw_only=True):
    """One order: the directory of the snapshot."""

    folder: str
