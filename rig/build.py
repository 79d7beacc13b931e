"""Ensures that every program is present: found, fetched from a mirror, or compiled."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rig import mirror
from rig.binaries import ALL, KUBERNETES, Binaries, Binary, cache_dir, find, missing
from rig.cache import install, locked, workspace
from rig.compile import Toolchain, compile_programs, module_of
from rig.errors import SetupFailed
from rig.golang import build_env, ensure_go
from rig.progress import Notify, way_out

MIRROR = "LARDER_KUBE_MIRROR"


def setup(env: Mapping[str, str], notify: Notify, wanted: Sequence[Binary] = ALL) -> Binaries:
    """Return all programs, building or fetching missing ones; raises SetupFailed, which says how to fix it."""
    if missing(env, wanted):
        cache = cache_dir(env)
        with locked(cache, notify):  # another setup may have built them while we waited
            try:
                ensure(missing(env, wanted), env, cache, notify)
            except OSError as error:
                raise SetupFailed(f"{cache}: {error}\nWhat to do: {way_out(str(error))}") from error
    return find(env)


def ensure(absent: Iterable[Binary], env: Mapping[str, str], cache: Path, notify: Notify) -> None:
    """Put programs into the cache: fetch those of Kubernetes from the mirror if one is set, and compile the others."""
    base = env.get(MIRROR, "")
    prebuilt = [binary for binary in absent if base and binary in KUBERNETES]
    for binary in prebuilt:
        with workspace(cache) as work:
            install(binary, mirror.fetch(base, binary, work, notify), cache)
    if compiled := [binary for binary in absent if binary not in prebuilt]:
        _compile(compiled, env, cache, notify)


def _compile(absent: Sequence[Binary], env: Mapping[str, str], cache: Path, notify: Notify) -> None:
    go = ensure_go(env, cache, notify)
    for module, binaries in itertools.groupby(sorted(absent, key=module_of), key=module_of):
        wanted = list(binaries)
        with workspace(cache) as work:
            tools = Toolchain(go, build_env(env, work))
            for binary, built in zip(wanted, compile_programs(wanted, work / "module", tools, notify), strict=True):
                notify(f"  {module}: {install(binary, built, cache)}")
