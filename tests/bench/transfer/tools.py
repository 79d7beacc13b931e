"""The programs that a bench needs, found or installed by `setup`."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from rig import build
from rig.binaries import VERSITYGW, Binary, cache_dir, cached
from rig.cache import install, locked, workspace
from rig.compile import go_mod
from rig.errors import SetupFailed
from rig.golang import build_env, ensure_go
from rig.progress import Notify, Step, run

HERE = Path(__file__).parent
S5CMD = Binary("s5cmd", "2.3.0", "github.com/peak/s5cmd/v2")
PACKAGES = {
    "nginx": "nginx",
    "aria2": "aria2c",
    "curl": "curl",
    "rclone": "rclone",
    "gcc": "cc",
    "iproute2": "ip",
    "util-linux": "nsenter",
}  # Debian's package -> its program
MODULES = ("boto3", "awscrt", "obstore", "huggingface_hub")
_WHOLE = ".installed"  # in a finished environment
_APT = "/usr/bin/apt-get"
_PLACES = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True)
class Tools:
    """The path of each installed tool by name, and of the Python with the packages of other clients."""

    programs: Mapping[str, Path]
    python: Path | None

    def why_not(self, needed: tuple[str, ...]) -> str:
        """Return which of the needed tools are missing; empty if none is."""
        absent = [name for name in needed if name not in self.programs]
        return f"{', '.join(absent)} not found; `make bench BENCH=setup` brings what can be had" if absent else ""

    def versions(self) -> dict[str, str]:
        """Return the version that each tool reports."""
        asked = {name: _version(path) for name, path in self.programs.items() if name in _ASKED}
        asked |= {built.name: built.version for built in (S5CMD, VERSITYGW)}
        return {**asked, **(_module_versions(self.python) if self.python else {})}


_ASKED = {
    "aria2c": "--version", "curl": "--version", "nginx": "-v", "rclone": "--version", "cc": "--version"
}  # fmt: skip


def bench_cache(env: Mapping[str, str]) -> Path:
    """Return the directory outside the repository where the bench keeps its tools."""
    return cache_dir(env) / "bench"


def find(env: Mapping[str, str]) -> Tools:
    """Return the installed tools. Raises SetupFailed if the C programs of the bench do not compile."""
    found = {name: shutil.which(name, path=_PLACES) for name in PACKAGES.values()}
    programs = {name: Path(path) for name, path in found.items() if path}
    programs["larder"] = Path(sys.executable).with_name("larder")
    s5cmd = cached(S5CMD, cache_dir(env))
    if os.access(s5cmd, os.X_OK):
        programs["s5cmd"] = s5cmd
    if compiler := programs.get("cc"):
        cache = bench_cache(env) / "native"
        programs |= {path.stem: _compiled(compiler, path, cache) for path in sorted((HERE / "native").glob("*.c"))}
    python = _venv(env) / "bin" / "python"
    if not (_venv(env) / _WHOLE).exists():
        return Tools(programs, None)
    programs["hf"] = python.with_name("hf")
    programs |= dict.fromkeys(_module_versions(python), python)
    return Tools(programs, python)


def setup(env: Mapping[str, str], notify: Notify, *, packages: bool) -> None:
    """Install missing tools: the S3 server, s5cmd, Python packages, and with `packages` those of Debian (root)."""
    build.setup(env, notify)
    if packages:
        _install_packages(env, notify)
    cache = cache_dir(env)
    with locked(cache, notify):
        if not cached(S5CMD, cache).exists():
            _build_s5cmd(env, cache, notify)
        _ensure_venv(env, notify)


def _install_packages(env: Mapping[str, str], notify: Notify) -> None:
    absent = [package for package, program in PACKAGES.items() if not shutil.which(program, path=_PLACES)]
    if not absent:
        return
    if os.geteuid() != 0 or not Path(_APT).exists():
        raise SetupFailed(f"packages need root and {_APT}; install what Debian calls {', '.join(absent)}")
    quiet = {**env, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}  # in runlevel 1 no server is started
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", *absent]):
        run(Step(f"apt-get {' '.join(arguments)}", [_APT, "-q", *arguments], Path("/"), quiet), notify)


def _build_s5cmd(env: Mapping[str, str], cache: Path, notify: Notify) -> None:
    go = ensure_go(env, cache, notify)
    with workspace(cache) as work:
        (work / "go.mod").write_text(go_mod(S5CMD.package, f"v{S5CMD.version}", ""))
        argv = [str(go), "build", "-mod=mod", "-o", str(work / S5CMD.name), S5CMD.package]
        run(Step(f"compiling s5cmd v{S5CMD.version}", argv, work, build_env(env, work)), notify)
        install(S5CMD, work / S5CMD.name, cache)


def _venv(env: Mapping[str, str]) -> Path:
    wanted = sha256((HERE / "requirements.txt").read_bytes()).hexdigest()[:12]
    return bench_cache(env) / f"python-{wanted}"


def _ensure_venv(env: Mapping[str, str], notify: Notify) -> None:
    place = _venv(env)  # its programs contain its path, so it cannot be created elsewhere and moved
    if (place / _WHOLE).exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "venv", "--clear", str(place)]
    run(Step("making the peers' environment", argv, place.parent, env), notify)
    argv = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--require-hashes"]
    argv += ["--only-binary=:all:", "-r", str(HERE / "requirements.txt")]
    run(Step("installing the peers' packages", argv, place.parent, env), notify)
    (place / _WHOLE).touch()


def _compiled(compiler: Path, source: Path, cache: Path) -> Path:
    place = cache / sha256(source.read_bytes()).hexdigest()[:12] / source.stem
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = place.with_suffix(".new")
        argv = [str(compiler), "-O2", "-pthread", "-o", str(fresh), str(source), "-ldl"]
        run(Step(f"compiling {source.name}", argv, cache, {"PATH": _PLACES}), lambda _: None)
        fresh.rename(place)
    return place


def _version(program: Path) -> str:
    argv = [str(program), _ASKED[program.name]]
    asked = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603 - a tool that we found
    found = re.search(r"\d+\.\d+[\w.-]*", asked.stdout or asked.stderr)
    return found[0] if found else "unknown"


def _module_versions(python: Path) -> dict[str, str]:
    code = "import importlib.metadata as m, sys; [print(n, m.version(n)) for n in sys.argv[1:]]"
    asked = subprocess.run(  # noqa: S603 - our own environment
        [python, "-c", code, *MODULES], capture_output=True, text=True, check=True
    )
    return dict(line.split() for line in asked.stdout.splitlines())
