"""Authenticates callers: only the API server may request reviews, by secret path and optional client certificate."""

import hmac
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

_KEY = re.compile(r"[a-z0-9][a-z0-9-]{30,126}[a-z0-9]", re.ASCII)  # what the API server accepts as a path segment
_FORM = "32 to 128 lowercase letters, digits or '-', not beginning or ending with '-'"
_NOT_FOUND, _FORBIDDEN = 404, 403
_log = structlog.get_logger("admission")
Keys = Callable[[], Sequence[str]]


class InvalidKeysError(ValueError):
    """The file has no usable path key."""


@dataclass(frozen=True, slots=True)
class Denial:
    """The status and message for an unauthenticated caller."""

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class Callers:
    """The credentials that a caller must present before any of its request is read.

    `keys`: the accepted path segments. `certificate`: whether a client certificate is also required; `names`: the
    common names or DNS names it may carry, any if empty.
    """

    keys: Keys
    certificate: bool = False
    names: frozenset[str] = frozenset()

    def denial(self, key: str, certificate: Mapping[str, Any]) -> Denial | None:
        """Return why a caller is rejected, None for the API server; `certificate` is from ssl.getpeercert."""
        presented = key.encode()
        # Compare every key in constant time, so that response times reveal nothing about them.
        if not sum(hmac.compare_digest(presented, known.encode()) for known in self.keys()):
            return Denial(_NOT_FOUND, "Not Found")
        if self.certificate and not certificate:
            return Denial(_FORBIDDEN, "the API server's client certificate is required: see docs/security.md")
        if self.certificate and self.names and self.names.isdisjoint(_names_of(certificate)):
            return Denial(_FORBIDDEN, "this client certificate is not the API server's: see admission.clientNames")
        return None


def _names_of(certificate: Mapping[str, Any]) -> Iterator[str]:
    for part in certificate.get("subject", ()):
        yield from (value for name, value in part if name == "commonName")
    yield from (value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS")


class KeyFile:
    """Reads the keys from a file, one per line, and again whenever the file changes.

    The webhooks use the first key. A second one is accepted during a rotation.
    """

    def __init__(self, file: Path) -> None:
        """Read the file. Raises OSError, InvalidKeysError."""
        self._file = file
        self._stamp = _stamp_of(file)
        self._keys = parse_keys(file.read_text())

    def __call__(self) -> Sequence[str]:
        """Return the current keys; an unusable file leaves the last keys in force."""
        try:
            stamp = _stamp_of(self._file)
            if stamp != self._stamp:
                self._stamp = stamp
                self._keys = parse_keys(self._file.read_text())
                _log.info("admission_keys_loaded", count=len(self._keys))
        except (OSError, InvalidKeysError) as error:
            _log.warning("admission_keys_not_loaded", file=str(self._file), error=str(error))
        return self._keys


def parse_keys(text: str) -> tuple[str, ...]:
    """Parse the keys in a file's text; InvalidKeysError names the line and never the key."""
    lines = [line.strip() for line in text.splitlines()]
    for number, line in enumerate(lines, 1):
        if line and not _KEY.fullmatch(line):
            raise InvalidKeysError(f"line {number} is not a path key: {_FORM}")
    keys = tuple(line for line in lines if line)
    if not keys:
        raise InvalidKeysError(f"there is no path key; write one of {_FORM}")
    return keys


def _stamp_of(file: Path) -> tuple[int, int, int]:
    stat = file.stat()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
