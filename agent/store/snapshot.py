"""A complete revision of a model on this disk, as described by its `.completed` file."""

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import replace

from agent.store.content_keys import content_key, keys_by_path, members_manifest, source_key
from agent.store.disk import raise_if_exhausted
from agent.store.layout import Layout
from agent.store.list_size import ListSize, list_size
from agent.store.verify import verification
from shared.decode_errors import DECODE_ERRORS
from shared.errors import UnsafePath
from shared.manifest import File, Manifest
from shared.paths import COMPLETED, check_paths

# Content never changes, so all files have the same time stamp, the earliest that every archive format supports. A file
# with a different time stamp was written to.
MTIME_NS = 315_532_800 * 10**9


class CompletedFile(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One file of a snapshot: the facts about its bytes, and what the publisher stated about them."""

    path: str
    size: int
    sha256: str
    digest: str = ""
    etag: str = ""


class CompletedArchive(CompletedFile, frozen=True, omit_defaults=True):
    """An archive that is no longer here, and the paths of the files extracted from it."""

    files: tuple[str, ...] = ()


class Completed(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of `.completed`: every file, and the archives that some of them came from.

    If all files came from one archive, it is in `archive` and `archives` is empty: older versions read only that.
    """

    id: str
    revision: str
    uri: str
    manifest: str
    files: tuple[CompletedFile, ...]
    archive: CompletedFile | None = None
    archives: tuple[CompletedArchive, ...] = ()

    def encode(self) -> bytes:
        """Return the mark as bytes."""
        return msgspec.json.encode(self)


@dataclass(frozen=True, slots=True)
class ArchiveContents:
    """The files extracted from an archive; the publisher stated nothing about them."""

    archive: CompletedFile
    files: tuple[CompletedFile, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The snapshot at `path`; usable only while `damaged` is empty. `size` is the sum of its file sizes in bytes.

    `list_size` is what its list of files takes in memory.
    """

    id: str
    revision: str
    uri: str
    path: Path
    manifest_digest: str
    files: tuple[CompletedFile, ...]
    size: int
    damaged: tuple[str, ...] = ()
    unpacked: tuple[ArchiveContents, ...] = ()
    list_size: ListSize = ListSize()

    @property
    def fetched(self) -> tuple[CompletedFile, ...]:
        """The files as the source had them, without those extracted from archives."""
        members = {file.path for contents in self.unpacked for file in contents.files}
        return tuple(file for file in self.files if file.path not in members)

    @property
    def verified(self) -> str:
        """How the files were verified: by `digest`, or by `size` if any had no publisher's digest.

        For extracted files, the archive was verified.
        """
        return verification(f.digest for f in (*self.fetched, *(contents.archive for contents in self.unpacked)))


def completed_of(
    manifest: Manifest, identity: str, digests: Mapping[str, str], unpacked: Sequence[ArchiveContents] = ()
) -> Completed:
    """Return the mark for a manifest whose files have these SHA-256 digests by path.

    Files of the archives in `unpacked` take the archives' place. Raises KeyError for a file without a digest.
    """
    archives = {contents.archive.path for contents in unpacked}
    kept = [
        CompletedFile(f.path, f.size, digests[f.path], f.digest, f.etag)
        for f in manifest.files
        if f.path not in archives
    ]
    files = sorted((*kept, *(file for contents in unpacked for file in contents.files)), key=lambda f: f.path)
    known = Completed(identity, manifest.revision, manifest.uri, manifest.digest, tuple(files))
    if len(unpacked) == 1 and not kept:
        return replace(known, archive=unpacked[0].archive)
    return replace(known, archives=tuple(map(_completed_archive, unpacked)))


def _completed_archive(unpacked: ArchiveContents) -> CompletedArchive:
    a = unpacked.archive
    return CompletedArchive(a.path, a.size, a.sha256, a.digest, a.etag, tuple(f.path for f in unpacked.files))


def _unpacked_of(mark: Completed) -> tuple[ArchiveContents, ...]:
    """Return the archives of a mark with their files; KeyError if it names a file it does not list."""
    if mark.archive:
        return (ArchiveContents(mark.archive, mark.files),)
    files = {file.path: file for file in mark.files}
    return tuple(
        ArchiveContents(
            CompletedFile(a.path, a.size, a.sha256, a.digest, a.etag), tuple(files[path] for path in a.files)
        )
        for a in mark.archives
    )


def source_file(file: CompletedFile) -> File:
    """Return the file as its manifest listed it."""
    return File(file.path, file.size, file.digest, file.etag)


def archive_keys(snapshot: Snapshot) -> dict[str, ArchiveContents]:
    """Return the archives that files were extracted from, by content name."""
    source = source_key(snapshot.uri)
    return {content_key(source, snapshot.revision, source_file(c.archive)): c for c in snapshot.unpacked}


def content_keys(snapshot: Snapshot) -> dict[str, str]:
    """Return the content name of each file, by path."""
    keys = keys_by_path(snapshot.uri, snapshot.revision, map(source_file, snapshot.fetched))
    for archive, contents in archive_keys(snapshot).items():
        members = members_manifest(archive, map(source_file, contents.files))
        keys |= keys_by_path(members.uri, members.revision, members.files)
    return keys


def read_snapshot(layout: Layout, path: Path) -> Snapshot | None:
    """Return the snapshot that `.completed` describes; None if there is no valid one or it belongs to another path.

    Raises StoreFailure.
    """
    if not is_directory(path) or not is_file(path / COMPLETED):
        return None
    try:
        mark = msgspec.json.decode((path / COMPLETED).read_bytes(), type=Completed)
        check_paths([f.path for f in mark.files])
        if layout.snapshot(mark.id, mark.revision) != path:
            return None
        unpacked = _unpacked_of(mark)
    except OSError as error:
        raise_if_exhausted(error, f"reading {path / COMPLETED}")
        return None
    except (*DECODE_ERRORS, UnsafePath, KeyError):
        return None
    size = sum(f.size for f in mark.files)
    lists = list_size((f.path for f in mark.files), (text for f in mark.files for text in (f.digest, f.etag)))
    return Snapshot(mark.id, mark.revision, mark.uri, path, mark.manifest, mark.files, size, (), unpacked, lists)


def damaged_paths(layout: Layout, snapshot: Snapshot) -> list[str]:
    """Return the files that were removed, written to or replaced since the commit, using stat alone."""
    top, blobs = f"{snapshot.path}/", f"{layout.blobs}/"  # strings: a starting agent checks tens of thousands of files
    damaged = [f.path for f in snapshot.files if not is_intact(top + f.path, blobs + f.sha256, f.size)]
    if not is_file(snapshot.path / COMPLETED):
        damaged.append(COMPLETED)
    return damaged


def is_intact(path: str, blob: str, size: int) -> bool:
    """Return whether a link is the untouched file: regular, size, time stamp, and inode of the blob if that exists."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    if not is_untouched(found, size):
        return False
    try:
        return os.path.samestat(found, os.lstat(blob))
    except OSError:
        return True


def is_untouched(found: os.stat_result, size: int) -> bool:
    """Return whether this is a file that we finished and that has not been written to since."""
    return stat.S_ISREG(found.st_mode) and found.st_size == size and found.st_mtime_ns == MTIME_NS


def is_file(path: Path) -> bool:
    """Return whether this is a regular file, not a link to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def is_directory(path: Path) -> bool:
    """Return whether this is a directory, not a link to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False
