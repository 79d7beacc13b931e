"""Verifies the bytes of a file against the publisher's digest."""

import hashlib
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from shared.errors import DigestMismatch
from shared.manifest import File
from shared.part_digests import part_bytes_of, value_of


class _Hash(Protocol):
    def update(self, data: memoryview | bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


class _Crc:
    """A cyclic redundancy check; `step` takes bytes and the current value."""

    def __init__(self, step: Callable[[memoryview | bytes, int], int], size_bytes: int) -> None:
        self._step, self._digits, self._value = step, 2 * size_bytes, 0

    def update(self, data: memoryview | bytes, /) -> None:
        self._value = self._step(data, self._value)

    def hexdigest(self) -> str:
        return f"{self._value:0{self._digits}x}"


def _crc32(_: File) -> _Hash:
    from isal.isal_zlib import crc32  # noqa: PLC0415 - few sources need it

    return _Crc(crc32, 4)  # zlib's own takes three to four times as long


def _crc32c(_: File) -> _Hash:
    from awscrt.checksums import crc32c  # noqa: PLC0415 - as above

    return _Crc(crc32c, 4)


def _crc64nvme(_: File) -> _Hash:
    from awscrt.checksums import crc64nvme  # noqa: PLC0415 - as above

    return _Crc(crc64nvme, 8)


class _Parts:
    """A digest of the digests of equal parts (the last may be shorter); `make` starts a hash."""

    def __init__(self, make: Callable[[File], _Hash], file: File) -> None:
        value = file.digest.partition(":")[2]
        self._make, self._file = make, file
        self._part_bytes = part_bytes_of(value, file.size) or max(1, file.size)  # an invalid value matches no file
        self._over, self._count = make(file), 0
        self._part, self._left_bytes = make(file), self._part_bytes

    def update(self, data: memoryview | bytes, /) -> None:
        while len(data) > self._left_bytes:
            self._part.update(data[: self._left_bytes])
            data = data[self._left_bytes :]
            self._next()
        self._part.update(data)
        self._left_bytes -= len(data)

    def _next(self) -> None:
        self._over.update(bytes.fromhex(self._part.hexdigest()))
        self._count += 1
        self._part, self._left_bytes = self._make(self._file), self._part_bytes

    def hexdigest(self) -> str:
        """Return the final value; no bytes may follow."""
        if self._left_bytes < self._part_bytes:
            self._next()
        return value_of(self._over.hexdigest(), self._count, self._part_bytes)


def _git_blob(file: File) -> _Hash:
    hasher = hashlib.sha1(usedforsecurity=False)  # git's name of a file; our blobs are named by SHA-256
    hasher.update(b"blob %d\0" % file.size)
    return hasher


_HASHERS: dict[str, Callable[[File], _Hash]] = {
    "git-sha1": _git_blob,
    "md5": lambda _: hashlib.md5(usedforsecurity=False),
    "crc32": _crc32,
    "crc32c": _crc32c,
    "crc64nvme": _crc64nvme,
}
_OF_PARTS = {"sha256": lambda _: hashlib.sha256(), **{name: _HASHERS[name] for name in ("crc32c", "crc32", "md5")}}
_HASHERS.update({f"{name}-parts": partial(_Parts, make) for name, make in _OF_PARTS.items()})


def verification(digests: Iterable[str]) -> str:
    """Return how files with these publisher's digests are verified: by `digest`, or by `size` if any has none.

    A digest that only a newer version can compute counts as none.
    """
    known = {"sha256", *_HASHERS}
    return "digest" if all(digest.partition(":")[0] in known for digest in digests) else "size"


class FileHasher:
    """Hashes one file sequentially from its first byte; `took_s` is the total hashing time in seconds.

    With `sha256=False`, SHA-256 is computed only if it is the publisher's digest.
    """

    def __init__(self, file: File, *, sha256: bool = True, clock: Callable[[], float] = time.perf_counter) -> None:
        self.file, self.took_s, self._clock = file, 0.0, clock
        algorithm = file.digest.partition(":")[0]
        self._sha256 = hashlib.sha256() if sha256 or algorithm == "sha256" else None
        other = _HASHERS[algorithm](file) if algorithm in _HASHERS else None
        self._publishers = self._sha256 if algorithm == "sha256" else other
        self._hashes = [made for made in (self._sha256, other) if made is not None]

    def feed(self, data: memoryview) -> None:
        """Hash the next bytes."""
        began_s = self._clock()
        for made in self._hashes:
            made.update(data)
        self.took_s += self._clock() - began_s

    @property
    def sha256(self) -> str:
        """The SHA-256 of the bytes so far in hex; empty if it was not computed."""
        return self._sha256.hexdigest() if self._sha256 is not None else ""

    def verify(self) -> None:
        """Raise DigestMismatch if the bytes do not match the publisher's digest; without one, do nothing."""
        if self._publishers is None:
            return
        algorithm, _, expected = self.file.digest.partition(":")
        if (found := self._publishers.hexdigest()) != expected.lower():
            raise DigestMismatch(
                f"{self.file.path!r}: expected {algorithm} {expected}, got {found} ({self.file.size} bytes); it is "
                "downloaded again from its start; if this repeats, the source serves damaged bytes"
            )
