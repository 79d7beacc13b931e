"""The order for a child process: what to read."""

import sys

from shared.metadata.reading.confined import ChildOrder
from shared.sources.port import Credentials
from shared.sources.settings import SourceSettings

COMMAND = (sys.executable, "-m", "controller.metadata.child")


class SourceOrder(ChildOrder, frozen=True, kw_only=True):
    """One reading, passed over the child's standard input so that no other process sees the credentials.

    `manifest` is the canonical list of files with this digest, and `revision` the one it must have; `left_out` is the
    number of the source's files that are not in it.
    """

    manifest: bytes
    digest: str
    revision: str
    left_out: int
    credentials: Credentials
    settings: SourceSettings
