"""A disk that can be filled: an in-memory file system for the kubelet directory and the store of one machine."""

from dataclasses import dataclass
from typing import Any

from rig.node import programs
from rig.node.machine import KUBELET, STORE, Machine

_MOUNTED = "/run/small-disk"
_FILLER = f"{_MOUNTED}/filler"


@dataclass(frozen=True)
class SmallDisk:
    """The size of a disk, and the free bytes below which kubelet reports pressure and below which it evicts."""

    size_bytes: int
    pressure_bytes: int
    evict_bytes: int

    def mount(self, machine: Machine) -> None:
        """Mount both directories on it; kubelet must not run yet, and their previous content is hidden."""
        lines = [f"mkdir {_MOUNTED}", f"mount -t tmpfs -o size={self.size_bytes},mode=755 tmpfs {_MOUNTED}"]
        for number, folder in enumerate((KUBELET, STORE)):
            place = f"{_MOUNTED}/{number}"
            lines += [f"mkdir {place}", f"mount --bind {place} {folder}", f"mount --make-rshared {folder}"]
        machine.run(["/bin/sh", "-euc", "\n".join(lines)])

    def leave_free(self, machine: Machine, free_bytes: int) -> None:
        """Fill the disk with a filler file until only `free_bytes` are left, or shrink that file."""
        machine.run(["/bin/rm", "-f", _FILLER])
        left = int(machine.run([programs.DF, "--output=avail", "--block-size=1", _MOUNTED]).split()[-1])
        if left > free_bytes:
            machine.run([programs.FALLOCATE, f"--length={left - free_bytes}", _FILLER])

    def eviction(self) -> dict[str, Any]:
        """Return the settings of kubelet; pressure that lasts less than an hour evicts nothing."""
        return {
            "evictionHard": {"nodefs.available": str(self.evict_bytes)},
            "evictionSoft": {"nodefs.available": str(self.pressure_bytes)},
            "evictionSoftGracePeriod": {"nodefs.available": "1h"},
            "evictionPressureTransitionPeriod": "1s",
        }
