"""Whether the bytes of a file are those that the publisher named."""

import hashlib
import time
from collections.abc import Callable
from typing import Protocol

from shared.errors import DigestMismatch
from shared.manifest import File


class _Hash(Protocol):
    def update(self, data: memoryview | bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


class _Crc:
    """A cyclic redundancy check; `step` takes bytes and the value so far."""

    def __init__(self, step: Callable[[memoryview | bytes, int], int], size_bytes: int) -> None:
        self._step, self._digits, self._value = step, 2 * size_bytes, 0

    def update(self, data: memoryview | bytes, /) -> None:
        self._value = self._step(data, self._value)

    def hexdigest(self) -> str:
        return f"{self._value:0{self._digits}x}"


def _crc32(_: File) -> _Hash:
    from isal.isal_zlib import crc32  # noqa: PLC0415 - what few sources need is loaded for them alone

    return _Crc(crc32, 4)  # zlib's own takes three to four times as long


def _crc32c(_: File) -> _Hash:
    from awscrt.checksums import crc32c  # noqa: PLC0415 - as above

    return _Crc(crc32c, 4)


def _crc64nvme(_: File) -> _Hash:
    from awscrt.checksums import crc64nvme  # noqa: PLC0415 - as above

    return _Crc(crc64nvme, 8)


def _git_blob(file: File) -> _Hash:
    hasher = hashlib.sha1(usedforsecurity=False)  # git's own name of a file; our blobs are named by SHA-256
    hasher.update(b"blob %d\0" % file.size)
    return hasher


_HASHERS: dict[str, Callable[[File], _Hash]] = {
    "git-sha1": _git_blob,
    "md5": lambda _: hashlib.md5(usedforsecurity=False),
    "crc32": _crc32,
    "crc32c": _crc32c,
    "crc64nvme": _crc64nvme,
}


class Check:
    """Hashes one file in order, from its first byte on; `took_s` is the time that this has taken in all."""

    def __init__(self, file: File, clock: Callable[[], float] = time.perf_counter) -> None:
        self.file, self.took_s, self._clock = file, 0.0, clock
        self._sha256 = hashlib.sha256()
        algorithm = file.digest.partition(":")[0]
        self._publishers = _HASHERS[algorithm](file) if algorithm in _HASHERS else None

    def feed(self, data: memoryview) -> None:
        """Take the next bytes."""
        began_s = self._clock()
        self._sha256.update(data)
        if self._publishers is not None:
            self._publishers.update(data)
        self.took_s += self._clock() - began_s

    @property
    def sha256(self) -> str:
        """The SHA-256 of what was fed, in hex."""
        return self._sha256.hexdigest()

    def verify(self) -> None:
        """Raise DigestMismatch unless what was fed is what the publisher named; without a digest, do nothing."""
        algorithm, _, expected = self.file.digest.partition(":")
        if algorithm == "sha256":
            found = self.sha256
        elif self._publishers is not None:
            found = self._publishers.hexdigest()
        else:
            return
        if found != expected.lower():
            raise DigestMismatch(
                f"{self.file.path!r}: expected {algorithm} {expected}, got {found} ({self.file.size} bytes); "
                "it is fetched again from its start later; if that goes on, the source serves damaged bytes"
            )
