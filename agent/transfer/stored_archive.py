"""An archive in the store, opened for reading."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader, RawIOBase
from typing import TYPE_CHECKING, BinaryIO

from agent.archive.formats import ArchiveFormat
from agent.store.disk import translated
from agent.store.store import Store
from agent.transfer.receive import Stopped
from shared.errors import NeedsAction
from shared.manifest import File

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_READ_BYTES = 64 * 1024  # expands to at most 64 MiB, after which `stop` is checked


@dataclass(frozen=True, slots=True)
class StoredArchive:
    """An archive of a model, and the SHA-256 of its bytes in the store."""

    file: File
    format: ArchiveFormat
    sha256: str

    @property
    def is_decompressed_to_list(self) -> bool:
        """Whether all its bytes must be read and decompressed to list its members."""
        return self.format is ArchiveFormat.TAR_GZIP

    @contextmanager
    def opened(
        self, store: Store, stop: threading.Event, count: Callable[[int], None] = lambda _: None
    ) -> Iterator[BinaryIO]:
        """Yield the archive for reading, until `stop` is set; `count` is called with the size of each chunk.

        Errors that need action are prefixed with the archive's name, since a model may have several. Raises Stopped,
        StoreFailure.
        """
        path = store.blobs.path(self.sha256)
        with translated(f"opening {path}"):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with BufferedReader(_StoppableFile(descriptor, stop, count), _READ_BYTES) as reader:
            try:
                yield reader
            except NeedsAction as error:
                raise type(error)(f"{self.file.path!r}: {error}") from error


class _StoppableFile(RawIOBase):
    """A file whose reads raise Stopped once `stop` is set."""

    def __init__(self, descriptor: int, stop: threading.Event, count: Callable[[int], None]) -> None:
        self._descriptor, self._stop, self._count = descriptor, stop, count

    def readinto(self, buffer: "WriteableBuffer") -> int:
        if self._stop.is_set():
            raise Stopped
        size = os.readv(self._descriptor, [buffer])
        self._count(size)
        return size

    def seek(self, position: int, whence: int = os.SEEK_SET) -> int:
        return os.lseek(self._descriptor, position, whence)

    def tell(self) -> int:
        return os.lseek(self._descriptor, 0, os.SEEK_CUR)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()
