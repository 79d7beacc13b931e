"""How a command ends: one line for a failure, and no waiting for what hangs."""

import io
import os
import sys
import threading
from contextlib import suppress
from typing import TextIO

from shared.errors import LarderError

INTERRUPTED = 130


def failure_line(error: Exception) -> str:
    """Return `Reason: message` in one line that a terminal shows as it is, whatever a server put into it."""
    if isinstance(error, LarderError):
        reason, message = error.reason, str(error)
    else:
        reason, message = (
            "InternalError",
            f"{type(error).__name__}: {error}; this is a fault of Larder: please report it",
        )
    return f"{reason}: {printable(' '.join(message.split()))}"


def printable(text: str) -> str:
    """Return a line with each character that would control a terminal as its escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def tell(line: str, out: TextIO) -> None:
    """Write a line; one that nobody can read any more is no failure."""
    with suppress(OSError, ValueError):
        print(line, file=out, flush=True)


def open_streams() -> tuple[TextIO, TextIO]:
    """Return stdout and stderr, which write any text; where one was closed, what is written to it is lost."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    return sys.stdout or io.StringIO(), sys.stderr or io.StringIO()


def leave(code: int) -> int:
    """Return the exit code, or exit at once where threads would still be waited for: those that a server keeps."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):  # nobody reads it: the interpreter shall not complain of that at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        os._exit(code)
    return code
