"""The directory that `larder fetch` fills: which files are already correct, and how new ones are put in place."""

import os
import shutil
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from agent.store.disk import translated
from agent.store.snapshot import MTIME_NS
from agent.store.verify import FileHasher
from shared.errors import DigestMismatch, StoreFailure, UnsafePath
from shared.manifest import File, Manifest, check_files

_STORE_FILES = {"holder", "store.json"}  # the first files that a store writes into its root
WORK_DIRECTORY, HOLDER = ".larder", ".larder-holder"
_BUFFER_BYTES = 2**20
_SECOND_NS, _GRAIN_NS = 10**9, 100  # the finest time stamp that common file systems keep, remote ones included


def check_manifest(manifest: Manifest) -> None:
    """Raise UnsafePath if a file, such as a plugin's, would leave the target or clash with our own names."""
    check_files(manifest.files)
    for file in manifest.files:
        if file.path.split("/")[0] in (WORK_DIRECTORY, HOLDER):
            raise UnsafePath(
                f"the file name {file.path!r} is reserved for larder fetch's own files; rename it at the source"
            )


def check_work_directory(target: Path) -> None:
    """Raise UnsafePath if the work directory, which is removed at the end, is not one that we created."""
    work = target / WORK_DIRECTORY
    if work.is_symlink():
        raise UnsafePath(f"{work} is a symbolic link, which larder fetch does not follow; remove it")
    with translated(f"reading {work}"):
        found = {path.name for path in work.iterdir()} if work.exists() else set()
    if found and not found & _STORE_FILES:
        raise UnsafePath(
            f"larder fetch did not create {work}, which contains {min(found)!r}; move it away or choose another --to"
        )


def remove_work_directory(target: Path) -> None:
    """Remove our work directory, the files that identify it last in case of a kill. Raises StoreFailure.

    A thread of a failed attempt may remove files of its own at the same time.
    """
    work = target / WORK_DIRECTORY
    with translated(f"removing {work}"):
        for path in [path for path in work.iterdir() if path.name not in _STORE_FILES and path.is_dir()]:
            shutil.rmtree(path, onerror=_raise_unless_missing)
        shutil.rmtree(work, onerror=_raise_unless_missing)


def _raise_unless_missing(function: object, path: str, failure: tuple[object, BaseException, object]) -> None:
    del function, path
    if not isinstance(failure[1], FileNotFoundError):
        raise failure[1]


def is_up_to_date(path: Path, file: File, key: str, count: Callable[[int], None]) -> bool:
    """Return whether the file is at `path`, from `safe_path`, complete, and matches the publisher's digest.

    Without a digest, size and mark decide: whether we placed it under the same `key` (from `identity.content_key`) and
    nobody wrote to it since. `count` is called with the number of bytes read. Raises StoreFailure.
    """
    with translated(f"reading {path}"):
        try:
            found = path.lstat()
        except FileNotFoundError:
            return False
        if stat.S_ISDIR(found.st_mode):
            raise StoreFailure(
                f"{path} is a directory, but the model has a file there; remove it or choose another --to"
            )
        if not stat.S_ISREG(found.st_mode) or found.st_size != file.size or _is_blob(found):
            return False
        if not file.digest:
            if file.size and found.st_mtime_ns % _SECOND_NS != _mark_ns(key):
                return False
            count(file.size)
            return True
        return _matches_digest(path, file, count)


def place_files(target: Path, files: Mapping[str, Path], keys: Mapping[str, str], now_ns: int) -> None:
    """Link the blobs in `files` to their paths below `target`, as plain files. Raises StoreFailure, UnsafePath.

    They stay blobs until all are in place, so a kill loses none. Files without a digest are marked with their key from
    `keys`.
    """
    temporary, folders = f"{target}/{WORK_DIRECTORY}/placing", dict[str, Path]()
    for name, blob in files.items():
        folder, _, last = name.rpartition("/")
        if folder not in folders:
            folders[folder] = place = safe_path(target, name).parent
            with translated(f"creating {place}"):
                place.mkdir(parents=True, exist_ok=True)
        path = f"{folders[folder]}/{last}"
        with translated(f"placing {path}"):
            _link(blob, path, temporary)
    whole_ns = now_ns - now_ns % _SECOND_NS - _SECOND_NS  # never in the future, whatever the mark
    marked = {files[name]: whole_ns + _mark_ns(key) for name, key in keys.items() if name in files}
    for blob, time_ns in {**dict.fromkeys(files.values(), now_ns), **marked}.items():
        with translated(f"releasing {blob}"):
            os.chmod(blob, 0o644)  # noqa: PTH101 - thousands of files, and strings take half the time of paths
            os.utime(blob, ns=(time_ns, time_ns))


def _mark_ns(key: str) -> int:
    """Return the nanoseconds within the second for the mtime of a file with this key.

    A later command recognises the file by them, so the key needs no file of its own. They are never 0, the value on
    file systems that store whole seconds.
    """
    return _GRAIN_NS * (1 + int(key, 16) % (_SECOND_NS // _GRAIN_NS - 1))


def _is_blob(found: os.stat_result) -> bool:
    """Return whether a kill interrupted the placing of a file, so it must be placed again from our work directory."""
    return found.st_mtime_ns == MTIME_NS and found.st_nlink > 1


def _link(blob: Path, path: str, temporary: str) -> None:
    """Link a blob into place, via `temporary` if something exists there."""
    with suppress(FileExistsError):
        os.link(blob, path, follow_symlinks=False)
        return
    with suppress(FileNotFoundError):  # left by a kill, or by renaming an inode over itself
        os.unlink(temporary)  # noqa: PTH108 - thousands of files, and strings take half the time of paths
    os.link(blob, temporary, follow_symlinks=False)
    os.rename(temporary, path)  # noqa: PTH104 - as above


def safe_path(target: Path, name: str) -> Path:
    """Return the path of a file; raise UnsafePath if a symbolic link on the way could leave the directory."""
    path = target / name
    for parent in path.parents:
        if parent == target:
            return path
        if parent.is_symlink():
            raise UnsafePath(f"{parent} is a symbolic link, which could lead out of {target}; remove it")
    return path


def _matches_digest(path: Path, file: File, count: Callable[[int], None]) -> bool:
    hasher, buffer = FileHasher(file, sha256=False), memoryview(bytearray(_BUFFER_BYTES))
    with path.open("rb", buffering=0) as opened:
        while size := opened.readinto(buffer):
            hasher.feed(buffer[:size])
            count(size)
    with suppress(DigestMismatch):
        hasher.verify()
        return True
    count(-file.size)
    return False
