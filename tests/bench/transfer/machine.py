"""The machine and the date of a report."""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from rig.errors import SetupFailed
from tests.bench.transfer.tools import Tools

_IN_MEMORY = ("tmpfs", "ramfs")


def describe(tools: Tools, work: Path) -> list[str]:
    """Return lines of Markdown: date, machine, versions."""
    versions = ", ".join(f"{name} {version}" for name, version in tools.versions().items())
    return [where(work), f"- {versions}"]


def where(work: Path) -> str:
    """Return a line of Markdown: date and machine."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    place = f"{os.cpu_count()} cores ({_cpu()}), {memory_gib:.0f} GiB of memory, {file_system(work)}"
    system = f"Linux {platform.release().partition('-')[0]}, Python {platform.python_version()}"
    load = os.getloadavg()[0]
    return f"- measured on {datetime.now(UTC):%Y-%m-%d}, {place}, {system}, load {load:.1f}"


def ensure_disk(work: Path) -> None:
    """Raise SetupFailed if the directory is in memory, where writing would cost nothing."""
    if file_system(work) in _IN_MEMORY:
        raise SetupFailed(f"{work} is on {file_system(work)}, which is memory; name a directory on a disk by --work")


def file_system(path: Path) -> str:
    """Return the type of the file system of a path."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    holding = [mount for mount in mounts if path.resolve().is_relative_to(mount[1])]
    return max(holding, key=lambda mount: len(mount[1]))[2]


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
