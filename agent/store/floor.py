"""Determines how much of the disk must stay free, and whether it is the node's root disk."""

import re
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from pathlib import Path

from shared.quantity import format_bytes, parse_quantity

AUTO = "auto"
_LEAST_BYTES = 2**30
_ROOT_SHARE = Fraction(15, 100)  # kubelet evicts pods below 10 % free on its own disk, and below 15 % on the image disk
_PERCENT = re.compile(r"^([0-9]{1,2}(?:\.[0-9]+)?)%$")
_KUBELETS_FILE = Path("/etc/hosts")  # in a pod, kubelet mounts its own; elsewhere the file is on the root disk itself
_SLACK = 16


@dataclass(frozen=True, slots=True)
class Floor:
    """How much of a file system stays free: bytes, or a share; with neither, a default for the store's location."""

    size_bytes: int | None = None
    share: Fraction | None = None

    def bytes_of(self, disk_bytes: int, *, on_root_disk: bool) -> int:
        """Return how many bytes stay free on a file system of this size."""
        if self.size_bytes is not None:
            return self.size_bytes
        if self.share is not None:
            return ceil(self.share * disk_bytes)
        return max(_LEAST_BYTES, ceil(_ROOT_SHARE * disk_bytes)) if on_root_disk else _LEAST_BYTES


def parse_floor(text: str) -> Floor:
    """Parse a floor such as `auto`, `20%`, `50Gi` or `1073741824`. Raises ValueError with the reason."""
    if text == AUTO:
        return Floor()
    if found := _PERCENT.match(text):
        return Floor(share=Fraction(found[1]) / 100)
    try:
        return Floor(size_bytes=parse_quantity(text))
    except ValueError as error:
        raise ValueError(f"{text!r} is not auto, a percentage or a size; write for example 15% or 50Gi") from error


@dataclass(frozen=True, slots=True)
class StoreVolume:
    """The disk that holds a store, and the administrator's settings for it."""

    root: Path
    on_root_disk: bool = False
    floor: Floor = Floor()
    refuses_root_disk: bool = False

    def floor_bytes(self, disk_bytes: int) -> int:
        """Return how many bytes of the disk stay free."""
        return self.floor.bytes_of(disk_bytes, on_root_disk=self.on_root_disk)

    def why_refused(self) -> str:
        """Return why nothing may be downloaded to this disk, or an empty string."""
        if not (self.on_root_disk and self.refuses_root_disk):
            return ""
        return (
            f"the store {self.root} is on the node's root file system, where downloads are refused; put the store on a "
            "disk of its own, or allow this one (agent.refuseRootDisk)"
        )


def lies_on_root_disk(store: Path, kubelets_file: Path = _KUBELETS_FILE) -> bool:
    """Return whether the store shares a file system with kubelet's own files; False if unknown."""
    try:
        return store.stat().st_dev == kubelets_file.stat().st_dev
    except OSError:
        return False


def shortage_message(disk_free: int, floor: int) -> str:
    """Return why a running download must stop, with the numbers; empty while there is enough space.

    Reserved bytes that have arrived may reach slightly below the floor, for directories and partly filled last blocks.
    """
    if disk_free >= floor - floor // _SLACK:
        return ""
    return (
        f"the disk has {format_bytes(disk_free)} free, but {format_bytes(floor)} must stay free: something other "
        "than Larder is filling it; free space on it, and the download resumes where it stopped"
    )
