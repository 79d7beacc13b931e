"""Copies files from the Go module of a program into the cache, such as CRDs and configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rig.binaries import Binary, cache_dir
from rig.cache import locked, workspace
from rig.compile import Toolchain, download_module, module_of
from rig.errors import MissingBinaries, SetupFailed
from rig.golang import build_env, ensure_go
from rig.progress import Notify


@dataclass(frozen=True)
class ModuleFiles:
    """The files below `root` of a program's module that match the patterns; each pattern must match at least one."""

    binary: Binary
    root: str
    patterns: tuple[str, ...]

    def find(self, env: Mapping[str, str]) -> Path:
        """Return the directory of the files; raises MissingBinaries, which says how to get them."""
        if not (place := self._place(env)).is_dir():
            name = self.binary.name
            raise MissingBinaries(
                f"the files of {name} are not in {place}; run: make setup && .venv/bin/python -m rig setup"
            )
        return place

    def ensure(self, env: Mapping[str, str], notify: Notify) -> None:
        """Put the files of this version into the cache, downloading the module if Go does not have it."""
        cache, place = cache_dir(env), self._place(env)
        if place.is_dir():
            return
        with locked(cache, notify), workspace(cache) as work:
            if place.is_dir():  # another setup fetched them while we waited
                return
            tools = Toolchain(ensure_go(env, cache, notify), build_env(env, work))
            (target := work / "config").mkdir()
            version = f"{module_of(self.binary)}@v{self.binary.version}"
            module = download_module(version, f"the files of {self.binary.name}", work, tools, notify)
            for pattern in self.patterns:
                self._copy(module.folder / self.root, pattern, target)
            place.parent.mkdir(parents=True, exist_ok=True)
            target.rename(place)
            notify(f"  {place}")

    def _copy(self, source: Path, pattern: str, target: Path) -> None:
        found = sorted(source.glob(pattern))
        if not found:
            raise SetupFailed(f"{self.binary.package} v{self.binary.version} has no {pattern} in its module: {source}")
        for path in found:
            copied = target / path.relative_to(source)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(path.read_bytes())  # without the mode: files of the Go module cache are read-only

    def _place(self, env: Mapping[str, str]) -> Path:
        return cache_dir(env) / "bin" / self.binary.folder / "config"
