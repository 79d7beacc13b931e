"""Runs `larder` at a terminal of a given width, or with its output piped."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import NamedTuple

_ARGV = [sys.executable, "-m", "shared.cli"]
_COLOUR = re.compile(r"\x1b\[[0-9;]{1,9}m")


class Message(NamedTuple):
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str


def piped(kubeconfig: Path, *arguments: str) -> Message:
    """Run a command with pipes."""
    argv = [*_ARGV, *arguments, f"--kubeconfig={kubeconfig}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=_environ())  # noqa: S603 - our own command
    return Message(done.returncode, done.stdout, done.stderr)


def start(kubeconfig: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Start a command whose output is read line by line."""
    argv = [*_ARGV, *arguments, f"--kubeconfig={kubeconfig}"]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=_environ())  # noqa: S603 - our own command


def at_terminal(columns: int, kubeconfig: Path, *arguments: str) -> Message:
    """Run a command at a terminal of this many columns; colours are removed from its output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    argv = [*_ARGV, *arguments, f"--kubeconfig={kubeconfig}"]
    environ = {**_environ(), "TERM": "xterm"}
    with subprocess.Popen(argv, stdout=theirs, stderr=subprocess.PIPE, text=True, env=environ) as running:  # noqa: S603 - our own command
        os.close(theirs)
        out = _drained(ours)
        err = running.stderr.read() if running.stderr else ""
    return Message(running.returncode, _COLOUR.sub("", out.replace("\r\n", "\n")), err)


def _drained(terminal: int) -> str:
    parts: list[bytes] = []
    with os.fdopen(terminal, "rb", buffering=0) as reader:
        while True:
            try:
                part = reader.read(65536)
            except OSError:  # the error with which Linux reports that the last writer of a terminal has closed it
                break
            if not part:
                break
            parts.append(part)
    return b"".join(parts).decode()


def _environ() -> dict[str, str]:
    """Return our environment without the variables for the width of the terminal."""
    return {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
