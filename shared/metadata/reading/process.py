"""Reads one model in a child process, so that files that crash or hang the reader affect nothing else.

The callers decide which model to read when, and how many children may run. This module does one reading, whatever the
child does. A child lives for one reading and takes 0.1 s of CPU time to start. It runs `confined.py`.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
import structlog

from shared.errors import Unreachable
from shared.metadata.reading.attempts import FAILED, INTERRUPTED
from shared.metadata.reading.confined import OUT_OF_MEMORY, ChildLimits, ReadRequest
from shared.metadata.reading.termination_message import MAX_BYTES, Reading, decode_reading, failed

# Variables that lead the interpreter to its code and certificates; a child gets no others.
_KEPT = (
    "PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONSAFEPATH", "PYTHONDONTWRITEBYTECODE", "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)  # fmt: skip
_OWN = {"MALLOC_ARENA_MAX": "2", "PYTHONUTF8": "1"}  # one arena per thread would use up the address space
_MAX_ERROR_BYTES = 4096
_log = structlog.get_logger()


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the part of the parent's environment that is passed to a child."""
    return {name: environ[name] for name in _KEPT if name in environ} | _OWN


@dataclass(slots=True)
class Child:
    """One reading; `read` blocks, and `end` may be called from another thread at any time."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=lambda: child_environment(os.environ))
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _ended: bool = field(default=False, init=False)
    _late: bool = field(default=False, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def read(self, request: ReadRequest) -> Reading:
        """Return the reading, or why there is none. In either case, the child has ended.

        Raises Unreachable if it could not be started or was ended by `end`.
        """
        process = self._start()
        timer = threading.Timer(request.limits.wall_s, self._end_late)
        timer.daemon = True
        timer.start()
        try:
            body, stderr = self._exchange(process, msgspec.msgpack.encode(request))
        finally:
            timer.cancel()
            self._kill()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            with self._lock:  # from here on its pid may be reused
                process.wait()
        if self._ended:
            raise Unreachable("reading the metadata was interrupted; it starts again later")
        reading = self._reading(process.returncode, body, request.limits)
        if reading.reason in (FAILED, INTERRUPTED):
            _log.error(
                "metadata_reader_failed",
                reason=reading.reason,
                code=process.returncode,
                stderr=stderr.decode(errors="replace"),
            )
        return reading

    def end(self) -> None:
        """End the reading, because its result is no longer needed."""
        self._ended = True
        self._kill()

    def _start(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        with self._lock:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own program
                    self.command, stdin=pipe, stdout=pipe, stderr=pipe, env=self.environment, start_new_session=True
                )
            except OSError as error:
                raise Unreachable(f"cannot start the process that reads metadata: {error.strerror}") from error
        if self._ended:
            self._kill()
        return self._process

    def _exchange(self, process: subprocess.Popen[bytes], request: bytes) -> tuple[bytes, bytes]:
        """Return what the child wrote to stdout and, for the log, to stderr."""
        assert process.stdin is not None  # noqa: S101 - opened by `_start`
        assert process.stdout is not None  # noqa: S101 - opened by `_start`
        assert process.stderr is not None  # noqa: S101 - opened by `_start`
        with process.stdout, process.stderr:
            with suppress(BrokenPipeError), process.stdin:
                process.stdin.write(request)
            body = process.stdout.read(MAX_BYTES + 1)
            if len(body) > MAX_BYTES:
                self._kill()
            return body, process.stderr.read(_MAX_ERROR_BYTES)

    def _end_late(self) -> None:
        self._late = True
        self._kill()

    def _kill(self) -> None:
        """Kill the child and any processes it started."""
        with self._lock:
            if self._process is not None and self._process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def _reading(self, code: int, body: bytes, limits: ChildLimits) -> Reading:
        if len(body) > MAX_BYTES or (code == 0 and not self._late):
            try:
                return decode_reading(body.decode())
            except ValueError as error:
                return _broken(f"failed: its result is invalid: {error}")
        if self._late:
            return _interrupted(f"did not finish within {limits.wall_s:.0f} s")
        if code == -signal.SIGKILL:
            return _interrupted("was killed from outside, perhaps because its container ran out of memory")
        return _broken(f"failed: {_cause(code, limits)}")


def _cause(code: int, limits: ChildLimits) -> str:
    if code == -signal.SIGXCPU:
        return f"it used more than {limits.cpu_s} s of CPU time"
    if code == OUT_OF_MEMORY:
        return f"it used more than {limits.memory_bytes // 2**20} MiB of memory"
    return f"it was killed by signal {-code}" if code < 0 else f"it exited with code {code}"


def _broken(what: str) -> Reading:
    return failed(FAILED, f"the process that reads this model's files {what}")


def _interrupted(what: str) -> Reading:
    """Return a failure that the machine may have caused, by overload or by other processes' use of memory."""
    return failed(INTERRUPTED, f"the process that reads this model's files {what}")
