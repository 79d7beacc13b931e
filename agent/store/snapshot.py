"""A complete revision of a model on this disk, as its `.completed` tells it."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from agent.store.identity import content_key, keys_by_path, members_manifest, source_key
from agent.store.layout import Layout
from agent.verify import verification
from shared.errors import UnsafePath
from shared.manifest import File, Manifest
from shared.paths import COMPLETED, check_paths

# Content never changes, so its time stamp is the same for ever (the first that every archive format can hold), and a
# file with another one was written to.
MTIME_NS = 315_532_800 * 10**9


class CompletedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file of a snapshot: what its bytes are, and what the publisher said of them."""

    path: str
    size: int
    sha256: str
    digest: str = ""
    etag: str = ""


class Completed(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of `.completed`; `archive` is what the files were unpacked from, where they were."""

    id: str
    revision: str
    uri: str
    manifest: str
    files: tuple[CompletedFile, ...]
    archive: CompletedFile | None = None

    def encode(self) -> bytes:
        """Return the bytes of the mark."""
        return msgspec.json.encode(self)


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What became of a model that is an archive: the archive, and its files without anything that a publisher said."""

    archive: CompletedFile
    files: tuple[CompletedFile, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What stands at `path`; usable only while `damaged` is empty. `size` is the sum of the files' sizes."""

    id: str
    revision: str
    uri: str
    path: Path
    manifest_digest: str
    files: tuple[CompletedFile, ...]
    size: int
    damaged: tuple[str, ...] = ()
    archive: CompletedFile | None = None

    @property
    def verified(self) -> str:
        """What the files were checked against: `digest`, or `size` where one had no publisher's digest.

        Of files that were unpacked, the archive was checked.
        """
        return verification(f.digest for f in ((self.archive,) if self.archive else self.files))


def completed_of(
    manifest: Manifest, identity: str, digests: Mapping[str, str], unpacked: Unpacked | None = None
) -> Completed:
    """Return the mark of a manifest whose files have these SHA-256 digests by path. Raises KeyError.

    With `unpacked`, the mark of what the manifest's only file became.
    """
    known = Completed(identity, manifest.revision, manifest.uri, manifest.digest, ())
    if unpacked:
        return msgspec.structs.replace(known, files=unpacked.files, archive=unpacked.archive)
    files = tuple(CompletedFile(f.path, f.size, digests[f.path], f.digest, f.etag) for f in manifest.files)
    return msgspec.structs.replace(known, files=files)


def source_file(file: CompletedFile) -> File:
    """Return the file as its manifest listed it."""
    return File(file.path, file.size, file.digest, file.etag)


def key_of_archive(snapshot: Snapshot) -> str:
    """Return the name of the content that the files were unpacked from; "" where they were not."""
    if not snapshot.archive:
        return ""
    return content_key(source_key(snapshot.uri), snapshot.revision, source_file(snapshot.archive))


def content_keys(snapshot: Snapshot) -> dict[str, str]:
    """Return the name of each file's content."""
    files = map(source_file, snapshot.files)
    if archive := key_of_archive(snapshot):
        members = members_manifest(archive, files)
        return keys_by_path(members.uri, members.revision, members.files)
    return keys_by_path(snapshot.uri, snapshot.revision, files)


def read_snapshot(layout: Layout, path: Path) -> Snapshot | None:
    """Return what `.completed` in the directory covers; None where it has no valid one or stands in another's place."""
    if not is_directory(path) or not is_file(path / COMPLETED):
        return None
    try:
        mark = msgspec.json.decode((path / COMPLETED).read_bytes(), type=Completed)
        check_paths([f.path for f in mark.files])
        if layout.snapshot(mark.id, mark.revision) != path:
            return None
    except (OSError, msgspec.DecodeError, UnsafePath):
        return None
    size = sum(f.size for f in mark.files)
    return Snapshot(mark.id, mark.revision, mark.uri, path, mark.manifest, mark.files, size, (), mark.archive)


def damaged_paths(layout: Layout, snapshot: Snapshot) -> list[str]:
    """Return the files that are missing or were written to or replaced since the commit, by stat alone."""
    top, blobs = f"{snapshot.path}/", f"{layout.blobs}/"  # joined as text: a start looks at ten thousands of files
    damaged = [f.path for f in snapshot.files if not is_intact(top + f.path, blobs + f.sha256, f.size)]
    if not is_file(snapshot.path / COMPLETED):
        damaged.append(COMPLETED)
    return damaged


def is_intact(path: str, blob: str, size: int) -> bool:
    """Tell whether a link is the untouched file: regular, size, time stamp, the blob's inode if there is one."""
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
    """Tell whether this is a file that we finished and nobody wrote to since."""
    return stat.S_ISREG(found.st_mode) and found.st_size == size and found.st_mtime_ns == MTIME_NS


def is_file(path: Path) -> bool:
    """Tell whether a regular file, not a link to one, stands here."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def is_directory(path: Path) -> bool:
    """Tell whether a directory, not a link to one, stands here."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False
