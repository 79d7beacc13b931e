"""Runs long commands: reports progress every few seconds, and the end of the output on failure."""

import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rig.errors import SetupFailed

Notify = Callable[[str], None]

_EVERY_S = 5.0
_KEPT_LINES = 30

_WAYS_OUT = (
    (
        ("no space left on device", "disk quota exceeded"),
        "the disk is full: a first build needs about 6 GB (`go env GOCACHE GOMODCACHE` and LARDER_CACHE say where)",
    ),
    (
        ("signal: killed", "cannot allocate memory"),
        "memory ran out: a build needs about 2.5 GB; with GOFLAGS=-p=1 it needs less",
    ),
    (
        ("dial tcp", "no such host", "i/o timeout", "connection refused", "network is unreachable", "tls: ",
         "name resolution", "connection broken", "no matching distribution"),
        (
            "the network or its proxy refused the request: GOPROXY, HTTPS_PROXY and PIP_INDEX_URL are honoured; "
            "KUBEBUILDER_ASSETS=<directory> or LARDER_KUBE_MIRROR=<URL> take prebuilt binaries instead"
        ),
    ),
    (
        ("checksum mismatch", "security error", "do not match the hashes"),
        "the download does not match the published checksum: find out why before you continue",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One long command: `title` names it, and `describe` turns the line count and the last line into progress."""

    title: str
    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    describe: Callable[[int, str], str] = lambda _, last: last
    counted_prefix: str = ""


def run(step: Step, notify: Notify, every_s: float = _EVERY_S) -> int:
    """Run a step, report progress every few seconds, and return the number of counted lines.

    Raises SetupFailed with the end of the output and the fix.
    """
    started = time.monotonic()
    notify(f"{step.title} ...")
    try:
        child = subprocess.Popen(
            step.argv, cwd=step.cwd, env=step.env, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    except OSError as error:
        raise SetupFailed(f"{step.title}: {step.argv[0]} could not be started: {error}") from error
    with child:
        lines = _Lines(child, step.counted_prefix)
        while not lines.ended(every_s):
            notify(f"  {_duration(time.monotonic() - started)}: {step.describe(lines.count, lines.last)}")
    if child.returncode:
        raise SetupFailed(_failure(step, child.returncode, lines.text))
    notify(f"  done in {_duration(time.monotonic() - started)}")
    return lines.count


def way_out(output: str) -> str:
    """Return what to do about a failed build, as far as its output shows."""
    lowered = output.lower()
    return next(
        (advice for phrases, advice in _WAYS_OUT if any(word in lowered for word in phrases)),
        "see the lines above; compiled packages are kept, so the next run continues from there",
    )


class _Lines:
    """The output of a command so far, read in another thread."""

    def __init__(self, child: "subprocess.Popen[str]", counted_prefix: str) -> None:
        self.count, self.last = 0, ""
        self._counted_prefix = counted_prefix
        self._kept: deque[str] = deque(maxlen=_KEPT_LINES)
        self._reader = threading.Thread(target=self._read, args=(child,), daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        return "\n".join(self._kept)

    def ended(self, timeout_s: float) -> bool:
        self._reader.join(timeout_s)
        return not self._reader.is_alive()

    def _read(self, child: "subprocess.Popen[str]") -> None:
        for line in child.stdout or ():
            self.last = line.rstrip()
            self._kept.append(self.last)
            self.count += self.last.startswith(self._counted_prefix)


def _failure(step: Step, code: int, output: str) -> str:
    return f"{step.title} failed with exit code {code}:\n{output}\nWhat to do: {way_out(output)}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
