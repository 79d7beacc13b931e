"""How much written data the page cache can keep, since it counts against our cgroup's memory."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

_PROC, _GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
_LIMIT, _LIMIT_OF_V1 = "memory.max", "memory.limit_in_bytes"


def _available_bytes() -> int:
    return int(psutil.virtual_memory().available)


def cache_bytes(
    available_bytes: Callable[[], int] = _available_bytes, proc: Path = _PROC, groups: Path = _GROUPS
) -> int:
    """Return the minimum of the node's available memory and our cgroups' limits, in bytes.

    0 if the kernel does not report it; `proc` and `groups` are where the limits are read.
    """
    try:
        return min([available_bytes(), *_limits(proc, groups)])
    except OSError:
        return 0


def memory_limit_bytes() -> int:
    """Return the minimum of the node's memory and our cgroups' limits, in bytes."""
    return min([int(psutil.virtual_memory().total), *_limits(_PROC, _GROUPS)])


def _limits(proc: Path, groups: Path) -> Iterator[int]:
    """Yield the limits of our cgroups and their parents, as far as they are visible."""
    with suppress(OSError):
        for line in (proc / "self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                yield from _limits_above(groups, path, _LIMIT)
            elif "memory" in controllers.split(","):
                yield from _limits_above(groups / "memory", path, _LIMIT_OF_V1)


def _limits_above(mount: Path, path: str, name: str) -> Iterator[int]:
    group = Path(path.lstrip("/"))
    for place in (group, *group.parents):
        with suppress(OSError, ValueError):  # a container sees its own cgroup as the mount itself; "max" means no limit
            yield int((mount / place / name).read_text())
