"""What a child process is asked to read: one model at its source."""

import sys

from shared.metadata.reading.confined import ReadRequest
from shared.sources.port import Credentials
from shared.sources.settings import SourceSettings

COMMAND = (sys.executable, "-m", "controller.metadata.child")


class SourceReadRequest(ReadRequest, frozen=True, kw_only=True):
    """A request to read one model. It is sent to standard input, so that no other process sees the credentials.

    `manifest` is the canonical list of files with this digest, and `revision` the one it must have; `left_out` is the
    number of the source's files that are not in it.
    """

    manifest: bytes
    digest: str
    revision: str
    left_out: int
    credentials: Credentials
    settings: SourceSettings
