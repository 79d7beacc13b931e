"""Unpacked images of containerd, kept for the next node: clones share the files but have their own databases."""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rig.binaries import CONTAINERD_VERSION
from rig.cache import locked
from rig.node.namespaces import command

_KEPT = 2  # a run has two clusters with different images
_CP = "/bin/cp"


class ImageStores:
    """Copies of the containerd directory below the cache, by the images in it."""

    def __init__(self, cache: Path) -> None:
        self._cache, self._folder = cache, cache / "containerd"

    def clone(self, archives: Sequence[Path], target: Path) -> bool:
        """Fill the directory of a stopped containerd; return False if there is no copy for these images."""
        kept = self._folder / _key(archives)
        with locked(self._cache, print):
            if not kept.exists():
                return False
            kept.touch()
            _share(kept, target)
        return True

    def keep(self, archives: Sequence[Path], source: Path) -> None:
        """Keep the directory of a stopped containerd, and remove the least recently used copies."""
        with locked(self._cache, print):
            self._keep(archives, source)

    def _keep(self, archives: Sequence[Path], source: Path) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix="new-", dir=self._folder))
        _share(source, made)
        kept = self._folder / _key(archives)
        if kept.exists():
            shutil.rmtree(made)
        else:
            made.rename(kept)
        newest = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in newest[_KEPT:]:
            shutil.rmtree(old)


def _key(archives: Sequence[Path]) -> str:
    names = sorted(archive.name for archive in archives)  # they end with the digests of the images
    return hashlib.sha256("\n".join([CONTAINERD_VERSION, *names]).encode()).hexdigest()[:16]


def _share(source: Path, target: Path) -> None:
    """Copy a tree by hard links where that is safe: containerd replaces its files, except for the databases."""
    linked = subprocess.run([_CP, "-al", f"{source}/.", str(target)], capture_output=True, check=False)
    if linked.returncode:
        command([_CP, "-a", f"{source}/.", str(target)])
    for database in target.rglob("*.db"):
        if "snapshots" not in database.parts:
            copy = database.with_suffix(".copy")
            shutil.copy2(database, copy)
            copy.rename(database)
