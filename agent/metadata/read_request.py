"""What a child process is asked to read: one unpacked snapshot."""

import sys

from shared.metadata.reading.confined import ReadRequest

COMMAND = (sys.executable, "-m", "agent.metadata.child")


class SnapshotReadRequest(ReadRequest, frozen=True, kw_only=True):
    """A request to read the snapshot in a directory."""

    folder: str
