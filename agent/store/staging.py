"""Turns a verified file into a blob, and keeps it until the commit.

The order makes a kill harmless at any point:

    step     names of the one file                        after a kill here
    write    partial/KEY.part (0600), KEY.map lists it    the download resumes from the listed ranges
    seal     partial/KEY.part (0444)                      complete if a digest can verify it, else downloaded again
    flush    the same                                     the same
    promote  partial/KEY.SHA256, the pin                  verified; the next start links the blob
             partial/KEY.SHA256, blobs/sha256/SHA256      verified
    commit   blobs/sha256/SHA256, models/.../PATH         committed; a pin that is left is dropped once idle

A pinned blob has more than one link, so it is not removed with another model.
"""

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress

from agent.store.content_keys import belongs_to
from agent.store.disk import Disk, store_error
from agent.store.inventory import Inventory
from agent.store.layout import Layout
from agent.store.partials import Partial, remove_partial
from agent.store.snapshot import MTIME_NS, is_untouched

_LINK = "link-"


def pin_path(layout: Layout, key: str, sha256: str) -> str:
    """Return the link that keeps a content until its commit."""
    return f"{layout.partial}/{key}.{sha256}"  # strings, here and below: thousands of paths cost more than their links


def make_durable(partial: Partial, disk: Disk) -> None:
    """Make the file read-only and flush it to disk; on failure discard it, since its content is unknown.

    Raises InsufficientStorage, StoreFailure.
    """
    try:
        seal(partial)
        disk.fsync(partial.descriptor)
    except OSError as error:
        _drop(partial)
        raise store_error(error, f"flushing {partial.place} to the disk") from error


def make_all_durable(sealed: Iterable[Partial], root: int, disk: Disk) -> None:
    """Flush sealed files to disk with one sync; on failure discard them all.

    Args:
        sealed: Files that `seal` has made read-only.
        root: A descriptor in the same file system.
        disk: The port to the file system.

    Raises:
        InsufficientStorage: The disk is full.
        StoreFailure: The sync failed.
    """
    try:
        disk.sync_all(root)
    except OSError as error:
        for partial in sealed:
            _drop(partial)
        raise store_error(error, "flushing small files to the disk") from error


def seal(partial: Partial) -> None:
    """Make the file read-only, with the time stamp of all content. Raises OSError."""
    os.fchmod(partial.descriptor, 0o444)
    os.utime(partial.descriptor, ns=(MTIME_NS, MTIME_NS))


def _drop(partial: Partial) -> None:
    with suppress(OSError):
        os.ftruncate(partial.descriptor, 0)
        remove_partial(partial.path.parent, partial.key)
    partial.held.clear()


def promote(layout: Layout, partial: Partial, sha256: str) -> None:
    """Turn a durable partial into a pinned blob; if the blob exists untouched, link that instead. Raises OSError."""
    pin = pin_path(layout, partial.key, sha256)
    os.rename(partial.place, pin)  # noqa: PTH104 - a string, as above
    partial.drop_map()
    link_blob(layout, pin, sha256)


def link_blob(layout: Layout, pin: str, sha256: str) -> None:
    """Make the pin and the blob one untouched file. Raises OSError."""
    blob = f"{layout.blobs}/{sha256}"
    try:
        os.link(pin, blob, follow_symlinks=False)
    except FileExistsError:
        _link_existing(layout, pin, blob)


def _link_existing(layout: Layout, pin: str, blob: str) -> None:
    existing, pinned = os.lstat(blob), os.lstat(pin)
    if os.path.samestat(existing, pinned):
        return
    kept, changed = (blob, pin) if is_untouched(existing, pinned.st_size) else (pin, blob)
    fresh = layout.partial / f"{_LINK}{secrets.token_hex(8)}"
    os.link(kept, fresh, follow_symlinks=False)
    fresh.rename(changed)  # two different inodes: renaming one over itself would do nothing


def finish_links(layout: Layout, inventory: Inventory) -> None:
    """Finish what a kill interrupted between a pin and its blob. Raises OSError."""
    for path in list(layout.partial.glob(f"{_LINK}*")):
        path.unlink(missing_ok=True)  # it would keep the bytes of a blob that nothing else links
    for _, sha256, pin in inventory.pins():
        link_blob(layout, str(pin), sha256)


def pin_blob(layout: Layout, key: str, sha256: str) -> None:
    """Keep a blob until the commit of a model that needs it. Raises OSError."""
    with suppress(FileExistsError):
        os.link(layout.blob(sha256), pin_path(layout, key, sha256), follow_symlinks=False)


def unpin(inventory: Inventory, keys: Iterable[str]) -> list[str]:
    """Drop the pins of these contents and of their archive members; return their digests. Raises OSError."""
    named = set(keys)
    dropped = [(sha256, pin) for key, sha256, pin in inventory.pins() if belongs_to(key, named)]
    for _, pin in dropped:
        pin.unlink(missing_ok=True)
    return [sha256 for sha256, _ in dropped]


def drop(layout: Layout, inventory: Inventory, keys: Iterable[str]) -> list[str]:
    """Drop pins and unfinished files of these contents and of their archive members; return the digests of the pins.

    Raises OSError.
    """
    named = set(keys)
    for key in stamps(layout):
        if belongs_to(key, named):
            remove_partial(layout.partial, key)
    return unpin(inventory, named)


def stamps(layout: Layout) -> dict[str, int]:
    """Return the contents in the partial directory, each with a stamp that changes whenever it is touched."""
    found: dict[str, int] = {}
    with os.scandir(layout.partial) as entries:
        for entry in entries:
            key = entry.name.partition(".")[0]
            with suppress(FileNotFoundError):
                found[key] = max(found.get(key, 0), entry.stat(follow_symlinks=False).st_ctime_ns)
    return found
