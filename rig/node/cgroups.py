"""The control groups for the pods of a node: one group per machine in every hierarchy, removed with the machine."""

import os
from contextlib import suppress
from pathlib import Path

from rig.processes import wait_until

ROOT = Path("/sys/fs/cgroup")
_V2_CONTROLLERS = ("cpuset", "cpu", "io", "memory", "pids")
_COPIED = ("cpuset.cpus", "cpuset.mems")  # a new cpuset of version 1 is empty, and admits no process
_PREFIX = "larder-rig-"
_EMPTY_S = 60.0


def writable(root: Path = ROOT) -> bool:
    """Return whether control groups can be created on this machine."""
    return any(os.access(hierarchy, os.W_OK) for hierarchy in _hierarchies(root))


def name_of(machine: str) -> str:
    """Return the name of a machine's group, which identifies the rig that owns it."""
    return f"{_PREFIX}{os.getpid()}-{machine}"


def sweep(root: Path = ROOT) -> None:
    """Remove the groups of rigs that were killed."""
    for hierarchy in _hierarchies(root):
        for group in hierarchy.glob(f"{_PREFIX}*"):
            if not Path("/proc", group.name.removeprefix(_PREFIX).partition("-")[0]).exists():
                _left(group)


def create(name: str, root: Path = ROOT) -> None:
    """Create a group in every hierarchy that allows it."""
    for hierarchy in _hierarchies(root):
        if hierarchy == root:
            _delegate(root)
        with suppress(PermissionError):
            (hierarchy / name).mkdir(exist_ok=True)
        for setting in _COPIED:
            if (hierarchy / setting).exists() and (hierarchy / name / setting).exists() and hierarchy != root:
                (hierarchy / name / setting).write_text((hierarchy / setting).read_text())


def remove(name: str, root: Path = ROOT) -> None:
    """Remove a group and all below it; its processes must have been killed."""
    wait_until(lambda: not any(_left(hierarchy / name) for hierarchy in _hierarchies(root)), _EMPTY_S, f"cgroup {name}")


def _hierarchies(root: Path) -> list[Path]:
    """Return the hierarchy of version 2, or those of version 1."""
    if (root / "cgroup.controllers").exists():
        return [root]
    return [path for path in sorted(root.glob("*/")) if (path / "cgroup.procs").exists() and not path.is_symlink()]


def _delegate(root: Path) -> None:
    """Enable the controllers that kubelet reads in version 2 groups below the root, as far as the kernel permits."""
    for controller in _V2_CONTROLLERS:
        with suppress(OSError):
            (root / "cgroup.subtree_control").write_text(f"+{controller}")


def _left(group: Path) -> bool:
    """Remove what can be removed now, and return whether anything is left."""
    for folder, _, _ in os.walk(group, topdown=False):
        with suppress(OSError):  # a killed process may take a while to exit
            Path(folder).rmdir()
    return group.exists()
