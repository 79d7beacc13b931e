"""What a child process is asked to read."""

import sys

from shared.metadata.confined import ChildOrder
from shared.sources.port import Credentials
from shared.sources.settings import SourceSettings

COMMAND = (sys.executable, "-m", "controller.metadata.child")


class SourceOrder(ChildOrder, frozen=True, kw_only=True):
    """One reading. It goes over the child's standard input, so that no other process sees the credentials.

    `manifest` is the canonical list of files with this digest, and `revision` the one that it must be of; `left_out`
    files of the source are not in it.
    """

    manifest: bytes
    digest: str
    revision: str
    left_out: int
    credentials: Credentials
    settings: SourceSettings
