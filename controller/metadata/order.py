"""What a child process is asked to read, and how much it may take for it."""

import msgspec

from shared.sources.port import Credentials
from shared.sources.settings import SourceSettings


class Limits(msgspec.Struct, frozen=True):
    """Bounds of one child: seconds of processor time, bytes of address space, seconds until it is killed."""

    cpu_s: int = 60
    memory_bytes: int = 320 * 2**20
    wall_s: float = 150.0  # a source may take 120 of them


class Order(msgspec.Struct, frozen=True):
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
    limits: Limits = Limits()
