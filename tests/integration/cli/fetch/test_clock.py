"""A wall clock that jumps by years between two commands, in either direction."""

import os
import time
from pathlib import Path

import pytest

from agent.store.snapshot import MTIME_NS
from shared.sources.memory import MemorySource
from tests.integration.cli.fetch.command import Command

LARGE = "weights.safetensors"
FILES = {"config.json": b"{}", LARGE: os.urandom(5 * 2**20), "sub/tokenizer.json": b"[]"}
SECOND_NS = 10**9


def shift(top: Path, years: int) -> None:
    """Shift all time stamps by years, as a wrong clock would have set them; fractions of a second are kept."""
    then_s = int(time.time()) + years * 365 * 86400
    for path in (top, *top.rglob("*")):
        found_ns = path.stat().st_mtime_ns
        if found_ns != MTIME_NS:  # a constant of the store, not set by a clock
            os.utime(path, ns=(found_ns, found_ns % SECOND_NS + then_s * SECOND_NS))


@pytest.mark.parametrize("years", [-30, 30])
@pytest.mark.parametrize("digests", [True, False])
def test_complete_files_are_not_fetched_again_after_a_clock_change(
    tmp_path: Path, years: int, *, digests: bool
) -> None:
    command = Command(tmp_path / "dir", MemorySource(FILES, digests=digests))
    assert command.run() == 0
    shift(command.to, years)
    served = command.source.served_bytes
    assert command.run() == 0
    assert command.source.served_bytes == served
    assert command.tree() == FILES


@pytest.mark.parametrize("years", [-30, 30])
def test_unfinished_files_resume_after_a_clock_change(tmp_path: Path, years: int) -> None:
    command = Command(tmp_path / "dir", MemorySource(FILES))

    def stop(path: str, position: int) -> None:
        if path == LARGE and position >= 4 * 2**20:
            raise PermissionError(f"{path} is cut off here")

    command.source.faults.before_read = stop
    assert command.run() == 1
    shift(command.to, years)
    command.source.faults.before_read = None
    served = command.source.served_bytes
    assert command.run() == 0
    assert command.tree() == FILES
    assert command.source.served_bytes - served <= 2 * 2**20
