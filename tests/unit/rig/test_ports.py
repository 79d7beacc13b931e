"""Rigs that run at the same time get different ports."""

import subprocess
import sys

import pytest

from rig.ports import free_port

_HOLDER = """
import sys
from rig.ports import free_port
print(free_port(), flush=True)
sys.stdin.read()
"""


def test_a_port_of_another_rig_is_free_once_that_rig_has_ended() -> None:
    argv = [sys.executable, "-c", _HOLDER]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:  # noqa: S603 - our own code
        assert holder.stdout is not None
        port = int(holder.stdout.readline())  # nothing listens there yet
        with pytest.raises(OSError, match="no free port"):
            free_port([port])
        holder.communicate()
    assert free_port([port]) == port


def test_a_port_is_given_once() -> None:
    port = free_port()
    with pytest.raises(OSError, match="no free port"):
        free_port([port])
