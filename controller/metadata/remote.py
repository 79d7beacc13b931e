"""Reads a model's metadata from its source: small files whole, only the headers of weights, by range requests."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from shared.errors import LarderError, Unreachable
from shared.manifest import File, Manifest
from shared.metadata.errors import MetadataMissing
from shared.metadata.files import SourceFiles
from shared.metadata.reader import read_metadata
from shared.metadata.reading.termination_message import Reading, decode_reading, encode_reading, failed
from shared.sources.port import Body, Source

MAX_S = 120.0
_SKIP_BYTES = 256 * 1024
MAX_BYTES = 256 * 2**20  # the largest real model, of 163 files, takes 20 MB


@dataclass(slots=True)
class ReadBudget:
    """Limits on the time and the bytes of a reading."""

    clock: Callable[[], float]
    seconds: float = MAX_S
    left_bytes: int = MAX_BYTES
    _until: float = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self._until = self.clock() + self.seconds

    def take(self, size_bytes: int) -> None:
        """Count received bytes. Raises Unreachable if the time is up, or too much was fetched."""
        with self._lock:
            self.left_bytes -= size_bytes
        if self.clock() >= self._until:
            raise Unreachable(f"reading the headers took more than {self.seconds:.0f} s; the source may be slow")
        if self.left_bytes < 0:
            raise Unreachable("the weights' headers are larger than those of any real model, so they are not read")


class _Counted:
    def __init__(self, body: Body, budget: ReadBudget) -> None:
        self._body, self._budget, self.skips = body, budget, body.skips

    def skip(self, max_bytes: int) -> int:
        size = self._body.skip(max_bytes)
        self._budget.take(0)
        return size

    def readinto(self, buffer: memoryview) -> int:
        while self.skip(_SKIP_BYTES):  # skipping all at once could exceed the time limit
            pass
        size = self._body.readinto(buffer)
        self._budget.take(size)
        return size

    def close(self) -> None:
        self._body.close()


@dataclass(frozen=True, slots=True)
class _Limited:
    """A source limited by a read budget."""

    source: Source
    budget: ReadBudget

    def resolve(self) -> Manifest:
        return self.source.resolve()

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        self.budget.take(0)
        return _Counted(self.source.open(file, offset, length), self.budget)

    def close(self) -> None:
        self.source.close()


def read_remote(source: Source, manifest: Manifest, left_out: int, budget: ReadBudget) -> Reading:
    """Return the metadata in the files of a manifest, or a reason why there is none.

    `left_out` is the number of the source's files that are not in the manifest. The result is bounded and printable,
    whatever the files contain. Blocks; never raises LarderError.
    """
    try:
        metadata = read_metadata(SourceFiles(_Limited(source, budget), manifest))
    except MetadataMissing as error:
        hint = f"; {left_out} files of the source are left out" if left_out else ""
        reading = failed(error.reason, f"{error}{hint}")
    except LarderError as error:
        reading = failed(error.reason, str(error))
    else:
        reading = Reading(metadata=metadata)
    return decode_reading(encode_reading(reading).decode())
