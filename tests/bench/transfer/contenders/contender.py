"""Contenders: plain data, and a command that is built from it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.bench.transfer.loads import Load
from tests.bench.transfer.measure import Command
from tests.bench.transfer.site import Site
from tests.bench.transfer.tools import Tools


class Way(StrEnum):
    """The origin of the bytes."""

    HUB = "hub"
    HTTP = "http"
    S3 = "S3"
    DISK = "disk"


@dataclass(frozen=True)
class Job:
    """One transfer: the files of `load` into `target`; lists go to `scratch`, outside the measured time."""

    site: Site
    load: Load
    target: Path
    scratch: Path
    tools: Tools

    def program(self, name: str) -> str:
        """Return the path of a tool that the contender needs."""
        return str(self.tools.programs[name])

    def write_list(self, lines: list[str]) -> Path:
        """Write a tool's list of files."""
        path = self.scratch / "list"
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def http_url(self, path: str = "") -> str:
        """Return the URL of a file on the static server, or of all files."""
        return f"{self.site.url}/files/{self.load.name}/{path}"


@dataclass(frozen=True)
class Contender:
    """A way to transfer the files. `verifies`: the digest; `needs`: tools; `role` marks the baselines."""

    name: str
    way: Way
    verifies: str
    needs: tuple[str, ...]
    command: Callable[[Job], Command]
    role: str = ""


OURS = "ours"
FLOOR = "floor"
NOTHING = "no"
DIGEST = "publisher's digest"
