"""The paths below a store's root, and the checks before the store is used."""

import os
import stat
import uuid
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from agent.store.disk import Disk
from agent.store.tree import sync_directory
from shared.decode_errors import DECODE_ERRORS
from shared.errors import StoreFailure, UnsafePath
from shared.names import short_id

TMP_PREFIX = ".tmp-"
GONE_PREFIX = ".gone-"
_LONGEST_NAME_BYTES = 200  # with a prefix and a random suffix, a name stays below the 255 bytes of file systems


class _Identity(msgspec.Struct, frozen=True):
    id: str
    version: int = 1


@dataclass(frozen=True)
class Layout:
    """The paths of one store."""

    root: Path

    @cached_property
    def blobs(self) -> Path:
        """Each distinct file once, named by the SHA-256 of its bytes."""
        return self.root / "blobs" / "sha256"

    @property
    def models(self) -> Path:
        """One directory per model, with one directory per revision."""
        return self.root / "models"

    @cached_property
    def partial(self) -> Path:
        """Unfinished files, and links that keep verified ones until the commit."""
        return self.root / "partial"

    @property
    def store_file(self) -> Path:
        """The store's ID."""
        return self.root / "store.json"

    @property
    def idle(self) -> Path:
        """How long unfinished files have been idle."""
        return self.root / "idle.json"

    @property
    def scrub(self) -> Path:
        """The scrub's position."""
        return self.root / "scrub.json"

    @property
    def holder(self) -> Path:
        """The holder of the lock, for the error message to the next process."""
        return self.root / "holder"

    def blob(self, sha256: str) -> Path:
        """Return the path of the blob with this digest."""
        return self.blobs / sha256

    def model(self, identity: str) -> Path:
        """Return the directory of a model's revisions."""
        name = short_id(identity)
        if not _is_name(name):
            raise UnsafePath(f"model id {identity!r} is not a directory name")
        return self.models / name

    def snapshot(self, identity: str, revision: str) -> Path:
        """Return the directory of one revision."""
        if not _is_name(revision):
            raise UnsafePath(f"revision {revision!r} is not a directory name")
        return self.model(identity) / revision


def ensure_layout(layout: Layout) -> None:
    """Create missing directories; this UID must own all of them. Raises OSError, StoreFailure."""
    for directory in (layout.blobs.parent, layout.blobs, layout.models, layout.partial):
        directory.mkdir(0o755, exist_ok=True)
        found = directory.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise StoreFailure(f"{directory} is not a directory; remove it or choose another root")
        if found.st_uid != os.geteuid():
            raise StoreFailure(
                f"{directory} belongs to uid {found.st_uid}, but this process runs as uid {os.geteuid()}; make that "
                "uid the owner of the root and everything in it (chown -R), or choose another root"
            )


def ensure_store_id(layout: Layout, disk: Disk) -> str:
    """Return the store's ID, creating one for a new store. Raises OSError, StoreFailure."""
    if not os.path.lexists(layout.store_file):
        fresh = layout.store_file.with_suffix(".new")
        _write(fresh, msgspec.json.encode(_Identity(uuid.uuid4().hex)), disk)
        fresh.rename(layout.store_file)
        sync_directory(layout.root, disk)
    try:
        identity = msgspec.json.decode(layout.store_file.read_bytes(), type=_Identity)
    except DECODE_ERRORS as error:
        raise StoreFailure(
            f"{layout.store_file} is damaged ({error}); remove it, and the store gets a new ID"
        ) from error
    if identity.version != 1:
        raise StoreFailure(f"{layout.root} has format {identity.version}, written by a newer Larder; upgrade this one")
    return identity.id


def _write(path: Path, body: bytes, disk: Disk) -> None:
    with path.open("wb") as file:
        file.write(body)
        file.flush()
        disk.fsync(file.fileno())


def _is_name(text: str) -> bool:
    return (
        bool(text)
        and not text.startswith(".")
        and "/" not in text
        and "\0" not in text
        and len(os.fsencode(text)) <= _LONGEST_NAME_BYTES
    )
