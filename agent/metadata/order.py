"""What a child process is asked to read."""

import sys

from shared.metadata.confined import ChildOrder

COMMAND = (sys.executable, "-m", "agent.metadata.child")


class SnapshotOrder(ChildOrder, frozen=True, kw_only=True):
    """One reading: the directory of the snapshot."""

    folder: str
