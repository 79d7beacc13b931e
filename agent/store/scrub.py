"""Rereads all blobs slowly and continuously, because disks corrupt bytes silently and stat does not show it.

If a file's bytes do not match its name, the scrub changes its time stamp. That marks it as damaged for all later
checks, even after a restart, and the usual repair fixes it. The position is stored next to the blobs, so a restart
resumes.
"""

import errno
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import structlog

from agent.linux.direct_read import opened_direct, read_direct
from agent.linux.ionice import lower_priority
from agent.store.snapshot import is_untouched
from agent.store.store import Store
from shared.decode_errors import DECODE_ERRORS
from shared.errors import LarderError

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_SAVE_EVERY_S = 10.0
_RETRY_S = 60.0
_MAX_TRIES = 3
_DAMAGED_NS = 0


class Position(msgspec.Struct, frozen=True):
    """The position of a pass: the last blob completed, attempts at the next one, and when a pass last ended.

    `ended_at` is POSIX time, 0 before the first pass has ended.
    """

    after: str = ""
    tries: int = 0
    ended_at: float = 0.0


@dataclass(slots=True)
class ScrubFigures:
    """Counters of the scrub since the start; `ended_at` is when a full pass last ended, 0 before the first."""

    size_bytes: int = 0
    damaged: int = 0
    ended_at: float = 0.0


def blobs_ahead(names: Iterable[str], position: Position) -> list[str]:
    """Return the blobs that a pass still has to read, in order.

    A blob that was started repeatedly but never finished, because the process ended each time, is deferred to the next
    pass, so that the remaining blobs get their turn.
    """
    ahead = sorted(name for name in names if name > position.after)
    return ahead[1:] if position.tries >= _MAX_TRIES else ahead


@dataclass(slots=True)
class Scrubber:
    """Scrubs one store at `rate` bytes per second in its own thread until `stop` is set.

    A pass begins `pause_s` seconds after the previous one ended. `on_damage` is called in that thread for each damaged
    file.
    """

    store: Store
    rate: int
    pause_s: float
    figures: ScrubFigures
    on_damage: Callable[[], object]
    stop: threading.Event
    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    _position: Position = field(default_factory=Position, init=False)
    _saved_s: float = field(default=0.0, init=False)

    def run(self) -> None:
        """Read pass after pass; disk errors are logged and retried later."""
        lower_priority()
        self._position = self._load()
        self.figures.ended_at = self._position.ended_at
        while not self.stop.is_set():
            try:
                pause_s = self.pause_s if self.read_pass() else 0.0
            except (LarderError, OSError) as error:
                _LOG.warning("scrub_interrupted", root=str(self.store.root), message=str(error))
                pause_s = _RETRY_S
            self.stop.wait(pause_s)

    def read_pass(self) -> bool:
        """Read the rest of the pass; return False if `stop` is set first. Raises OSError, LarderError."""
        blobs, ended_at = self.store.blobs.paths(), self._position.ended_at
        for name in blobs_ahead(blobs, self._position):
            self._position = Position(self._position.after, self._position.tries + 1, ended_at)
            if not self._read(name, blobs[name]):
                self._save()
                return False
            self._position = Position(name, 0, ended_at)
            self._save_if_due()
        self.figures.ended_at = self.wall_clock()
        self._position = Position(ended_at=self.figures.ended_at)
        self._save()
        if blobs:
            _LOG.info("scrub_pass_ended", root=str(self.store.root), blobs=len(blobs))
        return True

    def _read(self, sha256: str, path: Path) -> bool:
        try:
            with opened_direct(path) as descriptor:
                found = os.fstat(descriptor)
                if is_untouched(found, found.st_size) and (why := self._find_damage(descriptor, sha256)):
                    os.utime(descriptor, ns=(_DAMAGED_NS, _DAMAGED_NS))
                    self.figures.damaged += 1
                    _LOG.warning("file_damaged_at_rest", path=str(path), message=why)
                    self.on_damage()
        except FileNotFoundError:
            return True
        return not self.stop.is_set()

    def _find_damage(self, descriptor: int, sha256: str) -> str:
        """Return what is wrong with the bytes; empty if nothing is, or if `stop` was set."""
        hasher, pieces = hashlib.sha256(), read_direct(descriptor)
        while True:
            try:
                piece = next(pieces, None)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                return f"reading fails: {error.strerror}"
            if piece is None:
                break
            began_s = self.clock()
            hasher.update(piece)
            self.figures.size_bytes += len(piece)
            self._save_if_due()
            if self.stop.wait(max(0.0, len(piece) / self.rate - (self.clock() - began_s))):
                return ""
        found = hasher.hexdigest()
        return "" if found == sha256 else f"expected sha256 {sha256}, got {found}; it is downloaded again"

    def _save_if_due(self) -> None:
        if self.clock() - self._saved_s >= _SAVE_EVERY_S:
            self._save()

    def _load(self) -> Position:
        try:
            return msgspec.json.decode(self.store.layout.scrub.read_bytes(), type=Position)
        except (OSError, *DECODE_ERRORS):
            return Position()

    def _save(self) -> None:
        """Write the position, if the disk permits it; losing it costs no more than repeating a pass."""
        self._saved_s = self.clock()
        fresh = self.store.layout.scrub.with_suffix(".new")
        try:
            fresh.write_bytes(msgspec.json.encode(self._position))
            fresh.rename(self.store.layout.scrub)
        except OSError as error:
            _LOG.warning("scrub_position_not_saved", path=str(fresh), message=str(error))
