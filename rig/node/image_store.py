"""Unpacked images of containerd, kept for the next node: clones share the files but have their own databases."""

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rig.binaries import CONTAINERD_VERSION
from rig.cache import locked
from rig.node.namespaces import command

_KEPT = 4  # the clusters of a test run use that many sets of images
_CP = "/bin/cp"
_IMAGES, _FILES = "images.json", "files"


class ImageStores:
    """Copies of the containerd directory below the cache, each with a list of the images in it."""

    def __init__(self, cache: Path) -> None:
        self._cache, self._folder = cache, cache / "containerd"

    @contextmanager
    def prepared(self, archives: Sequence[Path], target: Path) -> Iterator[list[Path]]:
        """Fill the directory of a stopped containerd with the kept images, and yield the archives of the missing ones.

        The block imports the missing ones and stops containerd again; then the directory is kept. Other programs on
        this machine wait until then, so each image is unpacked once.
        """
        with locked(self._cache, print):
            if missing := self._clone(archives, target):
                yield missing
                self._keep(archives, target)
                return
        yield []

    def _clone(self, archives: Sequence[Path], target: Path) -> list[Path]:
        """Clone the kept copy with most of these images and no others; return the archives that it lacks."""
        wanted = _names(archives)
        usable = [(folder, images) for folder, images in self._kept() if images <= wanted]
        if not usable:
            return list(archives)
        best, present = max(usable, key=lambda each: len(each[1]))
        best.touch()
        _share(best / _FILES, target)
        return [archive for archive in archives if archive.name not in present]

    def _keep(self, archives: Sequence[Path], source: Path) -> None:
        """Keep a copy of a directory, and remove the least recently used copies."""
        self._folder.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix="new-", dir=self._folder))
        (made / _FILES).mkdir()
        _share(source, made / _FILES)
        names = sorted(_names(archives))
        (made / _IMAGES).write_text(json.dumps(names))
        made.rename(self._folder / _key(names))
        newest = sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in newest[_KEPT:]:
            shutil.rmtree(old)

    def _kept(self) -> Iterator[tuple[Path, set[str]]]:
        for folder in sorted(self._folder.glob("*")):
            if (folder / _IMAGES).exists():  # else a copy was interrupted, or is from another version
                yield folder, set(json.loads((folder / _IMAGES).read_text()))


def _names(archives: Sequence[Path]) -> set[str]:
    """Return the names that identify a set of images: their file names, which end with digests, and the version."""
    return {archive.name for archive in archives} | {f"containerd {CONTAINERD_VERSION}"}


def _key(names: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


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
