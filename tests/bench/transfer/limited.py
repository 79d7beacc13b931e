"""A memory limit for contenders, as in a container: pages that they write count against it too (root)."""

import os
from contextlib import suppress
from pathlib import Path

from rig.errors import SetupFailed
from rig.running import Running

_GROUPS = Path("/sys/fs/cgroup")
_ENTER = 'echo $$ > "$0" && exec "$@"'


class MemoryGroup(Running):
    """A control group, of either version, with this many MiB; commands that begin with `enter` run in it."""

    def __init__(self, mib: int) -> None:
        is_first = (_GROUPS / "memory").is_dir()
        self._path = _GROUPS / ("memory" if is_first else ".") / f"larder-bench-{os.getpid()}"
        self._limit = self._path / ("memory.limit_in_bytes" if is_first else "memory.max")
        self._mib = mib

    @property
    def enter(self) -> tuple[str, ...]:
        """The start of a command line that runs in the group; the program keeps its process ID."""
        return ("/bin/sh", "-c", _ENTER, str(self._path / "cgroup.procs"))

    def start(self) -> None:
        """Create the group. Raises SetupFailed."""
        try:
            self._path.mkdir()
            self._limit.write_text(str(self._mib * 2**20))
        except OSError as error:
            raise SetupFailed(
                f"no control group with a limit of memory can be made here ({error}); run as root"
            ) from error

    def stop(self) -> None:
        """Remove the group, unless it still has a process or was never created."""
        with suppress(OSError):
            self._path.rmdir()
