"""Programs that the rig starts: each with a log file, readiness, an orderly end, and no orphans."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from rig import launch
from rig.errors import StartFailed

_POLL_S = 0.05
_LONGEST_POLL_S = 0.25
_TAIL_LINES = 20
_GRACE_S = 5.0

# The death signal of the kernel follows the thread that forked, so one long-lived thread forks all programs.
_forker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rig-forker")


@dataclass(frozen=True)
class Program:
    """A program to run: `argv[0]` is a path; `outlive` keeps it running after the process of the rig ends."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    outlive: bool = False


class Process:
    """A started program."""

    def __init__(self, program: Program, log: Path) -> None:
        self.name = program.name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        self._child = _forker.submit(_spawn, program, log).result()

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its session."""
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code (negative: killed by that signal); None while it runs."""
        return self._child.poll()

    def wait_ready(self, condition: Callable[[], bool], timeout_s: float, what: str = "ready") -> None:
        """Wait until the condition holds; raises StartFailed with the end of the log if it exits or times out."""
        began = time.monotonic()
        while not condition():
            if self.exit_code is not None:
                raise StartFailed(
                    f"{self.name} ended with exit code {self.exit_code} before it was {what}{self._why()}"
                )
            if time.monotonic() - began > timeout_s:
                raise StartFailed(f"{self.name} was not {what} within {timeout_s:.0f} s{self._why()}")
            _pause(time.monotonic() - began)

    def stop(self, grace_s: float = _GRACE_S) -> None:
        """Stop it with TERM, then with KILL after `grace_s` seconds; harmless if it has ended."""
        if self.exit_code is not None:
            return
        self._child.terminate()
        try:
            self._child.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Kill it and wait until it is gone."""
        self._child.kill()
        self._child.wait()

    def _why(self) -> str:
        return f"; the end of {self.log}:\n{tail(self.log)}"


def tail(log: Path, lines: int = _TAIL_LINES) -> str:
    """Return the last lines of a log file."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Wait until the condition holds; raises StartFailed naming `what` after `timeout_s` seconds."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > timeout_s:
            raise StartFailed(f"gave up waiting for {what} after {timeout_s:.0f} s")
        _pause(time.monotonic() - began)


def _pause(waited_s: float) -> None:
    """Sleep until the next check: longer in longer waits, where frequent checks cost more than they save."""
    time.sleep(min(max(_POLL_S, waited_s / 5), _LONGEST_POLL_S))


def _spawn(program: Program, log: Path) -> "subprocess.Popen[bytes]":
    argv = list(program.argv)
    if not program.outlive:
        argv = [sys.executable, "-I", "-S", launch.__file__, str(int(signal.SIGKILL)), str(os.getpid()), *argv]
    with log.open("ab") as out:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **program.env},
            start_new_session=True,  # Ctrl-C reaches only the rig, which stops its programs in order
        )
