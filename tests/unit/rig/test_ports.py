"""Rigs that run at the same time get different ports."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rig.ports import RANGE, free_port

_TUTORIALS = Path(__file__).parents[3] / "docs" / "tutorials"

_HOLDER = """
import sys
from rig.ports import free_port
print(free_port(), flush=True)
sys.stdin.read()
"""


def test_a_port_held_by_another_process_is_free_once_that_ends() -> None:
    argv = [sys.executable, "-c", _HOLDER]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:  # noqa: S603 - our own code
        assert holder.stdout is not None
        port = int(holder.stdout.readline())  # nothing listens there yet
        with pytest.raises(OSError, match="no free port"):
            free_port([port])
        holder.communicate()
    assert free_port([port]) == port


def test_a_port_is_allocated_once() -> None:
    port = free_port()
    with pytest.raises(OSError, match="no free port"):
        free_port([port])


def test_ports_used_in_the_tutorials_are_never_allocated() -> None:
    pages = [page.read_text(encoding="utf-8") for page in _TUTORIALS.glob("*.md")]
    forwarded = {int(port) for page in pages for port in re.findall(r"port-forward \S+ (\d+):", page)}
    assert len(forwarded) > 5
    assert not forwarded & set(RANGE)
