"""Azurite, Microsoft's emulator of Azure storage: an npm package, so only available on machines with npm."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from rig.binaries import AZURITE_VERSION, cache_dir
from rig.cache import locked, workspace
from rig.errors import SetupFailed
from rig.progress import Notify, Step, run

_PROGRAM = Path("node_modules", ".bin", "azurite-blob")


def locate(env: Mapping[str, str]) -> Path | None:
    """Return the program in the cache; None if it or Node.js is missing."""
    program = _place(env) / _PROGRAM
    return program if program.exists() and shutil.which("node", path=env.get("PATH")) else None


def ensure(env: Mapping[str, str], notify: Notify) -> None:
    """Install this version into the cache if npm can fetch it; otherwise report that its tests are skipped."""
    npm = shutil.which("npm", path=env.get("PATH"))
    if npm is None:
        notify("no npm on PATH: skipping azurite and the tests that need it")
        return
    cache, place = cache_dir(env), _place(env)
    if (place / _PROGRAM).exists():
        return
    with locked(cache, notify), workspace(cache) as work:
        (target := work / "target").mkdir()
        argv = [npm, "install", "--prefix", str(target), "--ignore-scripts", "--no-audit", "--no-fund"]
        argv += ["--loglevel=error", f"azurite@{AZURITE_VERSION}"]
        try:
            run(Step(f"installing azurite {AZURITE_VERSION}", argv, work, env, lambda _, last: last), notify)
        except SetupFailed as error:
            notify(f"skipping azurite and the tests that need it: {error}")
            return
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        target.rename(place)


def _place(env: Mapping[str, str]) -> Path:
    return cache_dir(env) / "bin" / f"azurite-{AZURITE_VERSION}"
