"""Unfinished files: one per content, written in any order, resumed after a kill.

`KEY.map` next to `KEY.part` lists the byte ranges present, one per line. Each line is appended after its bytes were
written, so bytes with a line survive a kill. This file has the first and the third MiB:

    5c3f2c9e-0d7b-4a53-9b3a-7f1d6c0e2a11    the boot in which the ranges were written
    0 1048576
    2097152 3145728

After a crash of the whole node, ranges are trusted only if a publisher's digest will verify them (`held_ranges`).
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

from agent.linux.direct_write import PAGE_BYTES, DirectWriter
from agent.store.disk import raise_if_exhausted, translated
from agent.store.tree import remove_tree
from shared.byte_ranges import ByteRange, ByteRanges

SUFFIX, MAP_SUFFIX = ".part", ".map"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
# The kernel caches large writes in large areas of memory. In a virtual machine that had returned this memory to its
# host, that took up to three times the system time. Writes that begin at an odd page get small areas.
_PIECE_BYTES = 128 * 1024
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Partial:
    """The bytes of one file received so far; several threads may write, each its own range."""

    def __init__(
        self, key: str, place: str, descriptor: int, size: int, held: ByteRanges, *, cached: bool = True
    ) -> None:
        self.key, self.place, self.descriptor, self.size, self.held = key, place, descriptor, size, held
        self._uncached = None if cached else DirectWriter(descriptor)
        self._map = place.removesuffix(SUFFIX) + MAP_SUFFIX
        self._journal = -1
        self._mapped = True  # a map may exist
        if not held.size_bytes:
            self.drop_map()

    @property
    def path(self) -> Path:
        """The path of the file; `place` is a string because building a path costs as much as opening the file."""
        return Path(self.place)

    @property
    def grain(self) -> int:
        """The alignment in bytes that a write should have, in the file and in memory."""
        return PAGE_BYTES if self._uncached else 1

    def write(self, data: memoryview, offset: int, *, once: bool = False) -> None:
        """Write bytes at an offset.

        Args:
            data: The bytes.
            offset: Where they belong in the file, in bytes.
            once: Whether nobody reads them again soon; only for one thread at a time.

        Raises:
            InsufficientStorage: The disk is full.
            StoreFailure: The write failed.
        """
        with translated(f"writing {self.place}"):
            if once and self._uncached:
                written = self._uncached.write(data, offset)
                offset += written
                data = data[written:]
            while data:
                size = _PIECE_BYTES - (offset - PAGE_BYTES) % _PIECE_BYTES if len(data) > _PIECE_BYTES else len(data)
                written = os.pwrite(self.descriptor, data[:size], offset)
                offset += written
                data = data[written:]

    def note(self, span: ByteRange) -> None:
        """Record for the next process that these bytes are present. Raises InsufficientStorage, StoreFailure."""
        with translated(f"writing {self._map}"):
            if self._journal < 0:
                self._mapped = True
                self._journal = _open_map(self._map)
            _append(self._journal, span)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill the buffer from `offset` and return the number of bytes, 0 at the end. Raises StoreFailure."""
        with translated(f"reading {self.place}"):
            return os.preadv(self.descriptor, [buffer], offset)

    def discard(self) -> None:
        """Discard all bytes and start over. Raises StoreFailure."""
        self.held.clear()
        with translated(f"emptying {self.place}"):
            self.drop_map()
            os.ftruncate(self.descriptor, 0)

    def drop_map(self) -> None:
        """Drop the map that was recorded for the next process. Raises OSError."""
        if self._mapped:
            self._close_map()
            with suppress(FileNotFoundError):
                os.unlink(self._map)  # noqa: PTH108 - once per file, and a string takes half the time of a path
            self._mapped = False

    def close(self) -> None:
        """Close the files; written and noted bytes stay, an empty file is removed."""
        if not self.held.size_bytes:
            with suppress(OSError):
                os.unlink(self.place)  # noqa: PTH108 - as above
        self._close_map()
        if self._uncached:
            self._uncached.close()
        os.close(self.descriptor)

    def _close_map(self) -> None:
        if self._journal >= 0:
            os.close(self._journal)
            self._journal = -1


def open_partial(directory: Path, key: str, size: int, *, digest: bool, cached: bool = True) -> Partial:
    """Return the unfinished file of a content; the caller holds the lock on its key.

    Args:
        directory: Where unfinished files are.
        key: The content's name.
        size: Its size in bytes.
        digest: Whether it will be checked against a publisher's digest.
        cached: Whether all its bytes go through the page cache.

    Raises:
        InsufficientStorage: The disk is full.
        StoreFailure: The file could not be opened.
    """
    place = f"{directory}/{key}{SUFFIX}"
    with translated(f"opening {place}"):
        return _create(place, key, size, cached=cached) or _reopen(Path(place), key, size, digest=digest, cached=cached)


def held_ranges(directory: Path, key: str, size: int, *, digest: bool) -> ByteRanges:
    """Return the byte ranges of a content that are present.

    Without a digest to verify them, bytes written before this boot do not count: a crash may have kept the file's
    length but lost its bytes. Raises StoreFailure.
    """
    part = f"{directory}/{key}{SUFFIX}"
    try:
        found = os.lstat(part)
        if not stat.S_ISREG(found.st_mode):
            return ByteRanges()
        if not found.st_mode & stat.S_IWUSR:  # sealed: killed between its last byte and the rename
            return ByteRanges([ByteRange(0, size)]) if digest and found.st_size == size else ByteRanges()
        boot, held = _decode(_read(f"{directory}/{key}{MAP_SUFFIX}"))
        return held.within(min(size, found.st_size)) if digest or boot == _boot_id() else ByteRanges()
    except OSError as error:
        raise_if_exhausted(error, f"reading the map of {part}")
        return ByteRanges()


def remove_partial(directory: Path, key: str) -> None:
    """Drop the unfinished file of a content. Raises OSError."""
    for suffix in (MAP_SUFFIX, SUFFIX):
        (directory / f"{key}{suffix}").unlink(missing_ok=True)


def _create(place: str, key: str, size: int, *, cached: bool) -> Partial | None:
    """Return a new file; None if one exists."""
    try:
        return Partial(key, place, os.open(place, _FLAGS | os.O_EXCL, 0o600), size, ByteRanges(), cached=cached)
    except FileExistsError:
        return None


def _reopen(path: Path, key: str, size: int, *, digest: bool, cached: bool) -> Partial:
    held = held_ranges(path.parent, key, size, digest=digest)
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode):
        remove_tree(path)  # planted; the target of a link stays
    elif not mode & stat.S_IWUSR:
        if held.size_bytes:  # until now, the read-only mode recorded that it is complete
            _record_all(str(path.with_suffix(MAP_SUFFIX)), ByteRange(0, size))
        path.chmod(0o600)
    partial = Partial(key, str(path), os.open(path, _FLAGS, 0o600), size, held, cached=cached)
    if not held.size_bytes:
        os.ftruncate(partial.descriptor, 0)
    return partial


def _open_map(path: str) -> int:
    journal = os.open(path, _FLAGS | os.O_APPEND, 0o600)
    # Existing lines are from this boot, or their bytes will be verified; the last line may be cut short.
    os.write(journal, b"\n" if os.fstat(journal).st_size else f"{_boot_id()}\n".encode())
    return journal


def _append(journal: int, span: ByteRange) -> None:
    os.write(journal, b"%d %d\n" % (span.start, span.end))


def _record_all(path: str, span: ByteRange) -> None:
    journal = _open_map(path)
    try:
        _append(journal, span)
    finally:
        os.close(journal)


def _read(path: str) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read()


def _boot_id() -> str:
    return _BOOT_ID.read_text().strip()


def _decode(text: bytes) -> tuple[str, ByteRanges]:
    """Return the boot in which the ranges were written, and the ranges; a line cut short by a crash is skipped."""
    boot, *lines = text[: text.rfind(b"\n") + 1].decode(errors="replace").splitlines() or [""]
    numbers = (line.split() for line in lines)
    ranges = (ByteRange(int(n[0]), int(n[1])) for n in numbers if len(n) == 2 and all(map(str.isdecimal, n)))  # noqa: PLR2004 - start and end
    return boot, ByteRanges(ranges)
