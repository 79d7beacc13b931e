"""How commands end: a line for a failure, the exit code, and no waiting for hung threads."""

import io
import os
import sys
import threading
from contextlib import suppress
from typing import TextIO

from shared.errors import LarderError

INTERRUPTED = 130


def failure_line(error: Exception) -> str:
    """Return `Reason: message` in one line that is safe for a terminal, whatever a server sent."""
    if isinstance(error, LarderError):
        reason, message = error.reason, str(error)
    else:
        reason, message = (
            "InternalError",
            f"{type(error).__name__}: {error}; this is a bug in Larder, please report it",
        )
    return f"{reason}: {printable(' '.join(message.split()))}"


def printable(text: str) -> str:
    """Return a line with terminal control characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def write_line(line: str, out: TextIO) -> None:
    """Write a line; a closed reader is not a failure."""
    with suppress(OSError, ValueError):
        print(line, file=out, flush=True)


def open_streams() -> tuple[TextIO, TextIO]:
    """Return stdout and stderr, set to write any text; output to a closed stream is discarded."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    return sys.stdout or io.StringIO(), sys.stderr or io.StringIO()


def leave(code: int) -> int:
    """Return the exit code, or exit at once if Python would wait for a thread, such as one of a silent server."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):  # nobody reads it, so the interpreter must not complain at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        os._exit(code)
    return code
