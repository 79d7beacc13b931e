"""The requirements of real nodes: privileges, Debian packages, compiled programs, images that take long to build."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from rig import binaries, build
from rig.errors import MissingBinaries, SetupFailed
from rig.helm import find_helm
from rig.karpenter import files as karpenter_files
from rig.kserve import files as kserve_files
from rig.node import binaries as node_binaries
from rig.node import cgroups, images, programs
from rig.node.buildah import Buildah
from rig.node.cluster import Tools
from rig.operators import jobset, kueue, lws
from rig.progress import Notify, Step, run

_APT = "/usr/bin/apt-get"
_INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
_INOTIFY_INSTANCES = 1024


def obstacles(user: int | None = None) -> list[str]:
    """Return why this machine cannot have real nodes for `user` (default: the current one), whatever is installed."""
    if sys.platform != "linux":
        return ["kubelet needs Linux"]
    if (os.geteuid() if user is None else user) != 0:
        return ["namespaces and kubelet need root; run it as root"]
    found = []
    if not cgroups.writable():
        found.append(f"control groups cannot be created below {cgroups.ROOT}")
    trial = [programs.UNSHARE, "--mount", "--net", "/bin/true"]
    if Path(programs.UNSHARE).exists() and subprocess.run(trial, capture_output=True, check=False).returncode:
        found.append("the kernel refuses new namespaces; a container needs CAP_SYS_ADMIN")
    return found


def unmet_requirements(env: Mapping[str, str], user: int | None = None) -> list[str]:
    """Return why real nodes cannot run for `user` (default: the current one), with fixes; empty if they can."""
    if found := obstacles(user):
        return found
    if absent := programs.missing():
        found.append(f"packages are missing: {', '.join(absent)}; run: .venv/bin/python -m rig node setup")
    try:
        tools(env)
    except MissingBinaries as error:
        found.append(str(error))
    return found


def tools(env: Mapping[str, str]) -> Tools:
    """Return the programs; raises MissingBinaries, which says how to get them."""
    return Tools(binaries.find(env), node_binaries.find(env), find_helm(env))


def setup(env: Mapping[str, str], notify: Notify) -> Tools:
    """Install everything that is missing; raises SetupFailed, which says how to fix it."""
    if os.geteuid() != 0:
        raise SetupFailed("real nodes need root: run this as root, or skip the tests in tests/e2e")
    _install_packages(programs.missing(), env, notify)
    _raise_inotify_limit(notify)
    build.setup(env, notify, [*binaries.SET_UP, *binaries.NODE_SET_UP])
    kserve_files.FILES.ensure(env, notify)
    karpenter_files.FILES.ensure(env, notify)
    lws.FILES.ensure(env, notify)
    jobset.FILES.ensure(env, notify)
    kueue.FILES.ensure(env, notify)
    cache = binaries.cache_dir(env)
    images.ensure_base(cache, notify)
    images.build_model_server(Buildah(cache), cache, notify)
    return tools(env)


def _raise_inotify_limit(notify: Notify) -> None:
    """Allow several control planes, kubelets and agents at once; with the kernel's default of 128, kubelets exit."""
    if int(_INOTIFY.read_text()) >= _INOTIFY_INSTANCES:
        return
    try:
        _INOTIFY.write_text(str(_INOTIFY_INSTANCES))
    except OSError as error:
        notify(f"{_INOTIFY} stays at {_INOTIFY.read_text().strip()} ({error}): run fewer tests at the same time")
    else:
        notify(f"{_INOTIFY} is now {_INOTIFY_INSTANCES}, until this machine restarts")


def _install_packages(absent: list[str], env: Mapping[str, str], notify: Notify) -> None:
    if not absent:
        return
    if not Path(_APT).exists():
        raise SetupFailed(f"there is no apt-get here; install what Debian calls {', '.join(absent)}")
    quiet = {**env, "DEBIAN_FRONTEND": "noninteractive"}
    steps = (["update"], ["install", "--yes", "--no-install-recommends", *absent])
    for arguments in steps:
        run(Step(f"apt-get {' '.join(arguments)}", [_APT, "-q", *arguments], Path("/"), quiet), notify)
    if left := programs.missing():
        raise SetupFailed(f"apt-get did not install {', '.join(left)} where Debian puts them")
