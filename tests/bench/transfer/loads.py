"""The transferred files: number and size, with the same bytes in every run."""

import random
import re
from dataclasses import dataclass
from pathlib import Path

_MIB = 2**20
_UNITS = {"K": 2**10, "M": _MIB, "G": 2**30}
_SPELLED = re.compile(r"(\d+)x(\d+)([KMG])")
_MARK_BYTES = 16
OWNER = "bench"


@dataclass(frozen=True)
class Load:
    """`count` files of `size_bytes`; tools with an option for the number of connections get `connections`."""

    name: str
    count: int
    size_bytes: int
    connections: int
    suffix: str

    @property
    def total_bytes(self) -> int:
        """The bytes of all files."""
        return self.count * self.size_bytes

    @property
    def paths(self) -> list[str]:
        """The names of the files."""
        return [f"part-{number:05}{self.suffix}" for number in range(self.count)]

    @property
    def spelled(self) -> str:
        """The size in readable form: `8 x 512 MiB`."""
        unit = next(name for name, size in reversed(_UNITS.items()) if not self.size_bytes % size)
        return f"{self.count:,} x {self.size_bytes // _UNITS[unit]} {unit}iB"


def large(spelled: str, name: str = "large") -> Load:
    """Return a load of weights, which the hub stores separately from its small files. Raises ValueError."""
    return Load(name, *_parse(spelled), 4, ".safetensors")


def small(spelled: str) -> Load:
    """Return a load of files that the hub itself serves. Raises ValueError."""
    return Load("small", *_parse(spelled), 16, ".txt")


def write_files(load: Load, folder: Path) -> None:
    """Write the files; no two MiB of a load are alike."""
    folder.mkdir(parents=True)
    noise = random.Random(load.name).randbytes(_MIB)
    for number, path in enumerate(load.paths):
        with (folder / path).open("wb") as out:
            for offset in range(0, load.size_bytes, _MIB):
                mark = f"{number:06} {offset // _MIB:06}\n".encode().ljust(_MARK_BYTES)
                out.write((mark + noise[_MARK_BYTES:])[: load.size_bytes - offset])


def _parse(spelled: str) -> tuple[int, int]:
    match = _SPELLED.fullmatch(spelled)
    if not match:
        raise ValueError(f"{spelled!r} is not COUNTxSIZE; write for example 8x512M or 2000x64K")
    return int(match[1]), int(match[2]) * _UNITS[match[3]]
