"""The CRDs and configuration of KServe, copied from its Go module into the cache."""

from collections.abc import Mapping
from pathlib import Path

from rig.binaries import KSERVE, KSERVE_VERSION, cache_dir
from rig.cache import locked, workspace
from rig.compile import Toolchain, download_module, module_of
from rig.errors import MissingBinaries, SetupFailed
from rig.golang import build_env, ensure_go
from rig.progress import Say

_WANTED = (
    "crd/full/serving.kserve.io_*.yaml",
    "crd/full/clusterstoragecontainer/serving.kserve.io_*.yaml",
    "crd/full/llmisvc/serving.kserve.io_llminferenceservices.yaml",
    "configmap/inferenceservice.yaml",
    "runtimes/kserve-sklearnserver.yaml",
    "storagecontainers/default.yaml",
    "webhook/manifests.yaml",
)


def find(env: Mapping[str, str]) -> Path:
    """Return the folder; raises MissingBinaries, which says how to get it."""
    if not (place := _place(env)).is_dir():
        raise MissingBinaries(f"KServe's files are not in {place}; run: make setup && .venv/bin/python -m rig setup")
    return place


def ensure(env: Mapping[str, str], say: Say) -> None:
    """Put the files of this version into the cache, downloading the module if Go does not have it."""
    cache, place = cache_dir(env), _place(env)
    if place.is_dir():
        return
    with locked(cache, say), workspace(cache) as work:
        if place.is_dir():  # another setup fetched them while we waited
            return
        tools = Toolchain(ensure_go(env, cache, say), build_env(env, work))
        (target := work / "config").mkdir()
        module = download_module(f"{module_of(KSERVE)}@v{KSERVE_VERSION}", "KServe's files", work, tools, say)
        for pattern in _WANTED:
            _copy(module.folder / "config", pattern, target)
        place.parent.mkdir(parents=True, exist_ok=True)
        target.rename(place)
        say(f"  {place}")


def _copy(source: Path, pattern: str, target: Path) -> None:
    found = sorted(source.glob(pattern))
    if not found:
        raise SetupFailed(f"KServe v{KSERVE_VERSION} has no config/{pattern} in its module: {source}")
    for path in found:
        copied = target / path.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(path.read_bytes())  # the Go module cache is read-only, and copying the mode would keep that


def _place(env: Mapping[str, str]) -> Path:
    return cache_dir(env) / "bin" / KSERVE.folder / "config"
