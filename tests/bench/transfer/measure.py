"""Run one contender once: wall seconds, CPU seconds, peak memory."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_TIMEOUT_S = 900.0
_TAIL = 300


@dataclass(frozen=True)
class Command:
    """A command to run; `list_file` becomes its standard input."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    list_file: Path | None = None


@dataclass(frozen=True)
class Measured:
    """The cost of a run; `peak_bytes` is the peak resident memory of its largest process."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


class RunFailed(Exception):
    """A contender ended with an error, took too long, or did not transfer the files."""


def run_measured(measure: Path, command: Command, scratch: Path) -> Measured:
    """Run a command to its end, and return the cost including its children. Raises RunFailed."""
    cost, log = scratch / "cost", scratch / "log"
    argv = [str(measure), str(cost), *command.argv]
    with (command.list_file or Path(os.devnull)).open("rb") as stdin, log.open("wb") as out:
        child = subprocess.Popen(  # noqa: S603 - contenders are written down in this package
            argv, env=environment(command.env, scratch), stdin=stdin, stdout=out, stderr=out, start_new_session=True
        )
        try:
            child.wait(_TIMEOUT_S)
        except BaseException as error:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise RunFailed(f"not done after {_TIMEOUT_S:.0f} s") from error
            raise
    if child.returncode:
        raise RunFailed(f"{measure} ended with exit code {child.returncode}: {_end(log)}")
    wall_s, user_s, system_s, peak_kib, status = cost.read_text().split()
    if status != "0":
        raise RunFailed(f"exit code {status}: {_end(log)}")
    return Measured(float(wall_s), float(user_s) + float(system_s), int(peak_kib) * 1024)


def environment(extra: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Return the whole environment of a contender, without variables of the user."""
    home = scratch / "home"
    home.mkdir(exist_ok=True)
    return {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(home), "LANG": "C.UTF-8", **extra}


def _end(log: Path) -> str:
    return " ".join(log.read_text(errors="replace").split())[-_TAIL:]
