"""Prepares a root directory for use as a store."""

import os
import stat
import uuid
from pathlib import Path

import msgspec

from agent.store.disk import Disk
from agent.store.layout import Layout
from agent.store.tree import sync_directory
from shared.errors import StoreFailure


class _Identity(msgspec.Struct, frozen=True):
    id: str
    version: int = 1


def ensure_layout(layout: Layout) -> None:
    """Create missing directories; this UID must own all of them. Raises OSError, StoreFailure."""
    for directory in (layout.blobs.parent, layout.blobs, layout.models, layout.partial):
        directory.mkdir(0o755, exist_ok=True)
        found = directory.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise StoreFailure(f"{directory} is not a directory; remove it, or choose another root")
        if found.st_uid != os.geteuid():
            raise StoreFailure(
                f"{directory} belongs to uid {found.st_uid}, this process is uid {os.geteuid()}: give the root and all "
                "in it to this uid (chown -R), or choose another root"
            )


def ensure_identity(layout: Layout, disk: Disk) -> str:
    """Return the store's ID, creating one for a new store. Raises OSError, StoreFailure."""
    if not os.path.lexists(layout.identity):
        fresh = layout.identity.with_suffix(".new")
        _write(fresh, msgspec.json.encode(_Identity(uuid.uuid4().hex)), disk)
        fresh.rename(layout.identity)
        sync_directory(layout.root, disk)
    try:
        identity = msgspec.json.decode(layout.identity.read_bytes(), type=_Identity)
    except msgspec.DecodeError as error:
        raise StoreFailure(f"{layout.identity} is damaged ({error}); remove it, and the store gets a new id") from error
    if identity.version != 1:
        raise StoreFailure(f"{layout.root} was written by a newer version ({identity.version}); upgrade this one")
    return identity.id


def _write(path: Path, body: bytes, disk: Disk) -> None:
    with path.open("wb") as file:
        file.write(body)
        file.flush()
        disk.fsync(file.fileno())
