"""Turns verified blobs into a snapshot; a rename is the commit."""

import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agent.store.disk import Disk
from agent.store.layout import TMP_PREFIX, Layout
from agent.store.removal import clear_model_directory, clear_place, try_remove
from agent.store.snapshot import Completed
from agent.store.tree import build_snapshot, sync_directory
from shared.errors import StoreFailure


def prepare(layout: Layout, mark: Completed, disk: Disk) -> Path:
    """Build the snapshot next to its final path and return its path. Raises OSError, StoreFailure."""
    model = layout.model(mark.id)
    tmp = model / f"{TMP_PREFIX}{mark.revision}-{secrets.token_hex(4)}"
    try:
        clear_model_directory(model)
        build_snapshot(tmp, blobs_by_path(layout, mark), mark.encode(), disk)
        sync_directory(layout.blobs, disk)
        sync_directory(layout.models, disk)
    except OSError as error:
        with suppress(OSError):  # its links would keep the bytes of blobs that are removed later
            try_remove(tmp)
        if isinstance(error, PermissionError):
            raise StoreFailure(f"{error}; make the uid of this process the owner of {model}, or remove it") from error
        raise
    return tmp


def install(layout: Layout, tmp: Path, mark: Completed, disk: Disk) -> Path | None:
    """Rename a prepared snapshot into place; return the path of what it displaced. Raises OSError, StoreFailure."""
    target = layout.snapshot(mark.id, mark.revision)
    try:
        trash = clear_place(layout, target)
    except FileExistsError as error:
        try_remove(tmp)
        raise StoreFailure(f"{error}; move it away, so that the model can be committed there") from error
    tmp.rename(target)
    sync_directory(target.parent, disk)
    return trash


def blobs_by_path(layout: Layout, mark: Completed) -> Mapping[str, Path]:
    """Return the blob path of each file listed in a mark."""
    return {f.path: layout.blob(f.sha256) for f in mark.files}


def remove_empty(model: Path) -> None:
    """Remove a model's directory if it is empty."""
    with suppress(OSError):  # not empty, or not ours: leave it
        model.rmdir()
