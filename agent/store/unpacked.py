"""Models that keep the files of archives instead of the archives: earlier contents, and the space they need.

The contents extracted from an archive are named after it (`identity.members_manifest`), so they are removed with it,
and another model with the same archive finds them. `partial/KEY.BYTES.need` is an empty file and takes no space.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from agent.store.content_keys import keys_by_path, members_manifest
from agent.store.download_plan import DownloadPlan
from agent.store.inventory import Inventory
from agent.store.layout import Layout
from agent.store.partials import MAP_SUFFIX, SUFFIX
from agent.store.snapshot import ArchiveContents, CompletedFile, archive_keys, source_file
from agent.store.staging import pin_blob

_NEED = re.compile(r"^([0-9a-f]{64})\.([0-9]+)\.need$")


def find_complete(inventory: Inventory, plan: DownloadPlan) -> dict[str, ArchiveContents]:
    """Return the contents of the plan's archives in existing snapshots, by path, if all their files are untouched."""
    found = _find_unpacked(inventory, plan)
    return {path: contents for path, contents in found.items() if not _missing_members(inventory, contents)}


def _find_unpacked(inventory: Inventory, plan: DownloadPlan) -> dict[str, ArchiveContents]:
    """Return the contents of the plan's archives in existing snapshots, by path, untouched or not."""
    if not plan.archives:
        return {}
    known = {key: found for snapshot in inventory.marked() for key, found in archive_keys(snapshot).items()}
    found: dict[str, ArchiveContents] = {}
    for file in plan.archives:
        if contents := known.get(plan.keys[file.path]):
            archive = CompletedFile(file.path, file.size, contents.archive.sha256, file.digest, file.etag)
            found[file.path] = ArchiveContents(archive, contents.files)
    return found


def _missing_members(inventory: Inventory, unpacked: ArchiveContents) -> list[CompletedFile]:
    """Return the files whose blobs are missing or changed, one for each content."""
    distinct = {f.sha256: f for f in unpacked.files}
    return [f for f in distinct.values() if not inventory.has_blob(f.sha256, f.size)]


def missing_bytes(layout: Layout, inventory: Inventory, plan: DownloadPlan) -> int:
    """Return how many bytes the files of archives will take in addition to the archives, as far as known."""
    unpacked = _find_unpacked(inventory, plan)
    known = (file.size for contents in unpacked.values() for file in _missing_members(inventory, contents))
    unknown = {key for path, key in plan.archive_keys.items() if path not in unpacked}
    needs = dict(sorted((key, size) for _, key, size in _needs(layout, unknown)))
    pinned = {key: pinned_bytes(inventory, {key}) for key in needs}
    return sum(known) + sum(max(0, size - pinned[key]) for key, size in needs.items())


def pin_members(layout: Layout, inventory: Inventory, plan: DownloadPlan) -> None:
    """Keep the existing files of archives until the commit. Raises OSError."""
    for path, unpacked in _find_unpacked(inventory, plan).items():
        members = members_manifest(plan.keys[path], map(source_file, unpacked.files))
        keys = keys_by_path(members.uri, members.revision, members.files)
        for file in unpacked.files:
            if inventory.has_blob(file.sha256, file.size):
                pin_blob(layout, keys[file.path], file.sha256)


def pinned_bytes(inventory: Inventory, archives: Collection[str]) -> int:
    """Return how many bytes were extracted from these archives (content names) and wait for the commit."""
    pins = {sha256: pin for key, sha256, pin in inventory.pins() if "-" in key and key.partition("-")[0] in archives}
    return sum(pin.lstat().st_size for pin in pins.values())


def committed_archives(inventory: Inventory) -> set[str]:
    """Return the archives whose files are all in a snapshot: they are no longer needed."""
    archives = (found for snapshot in inventory.marked() for found in archive_keys(snapshot).items())
    return {key for key, contents in archives if not _missing_members(inventory, contents)}


def note_needs(layout: Layout, needs: Mapping[str, int]) -> None:
    """Record the minimum number of bytes that the files of each archive need, by content name. Raises OSError."""
    forget_needs(layout, needs)
    for archive, size_bytes in needs.items():
        (layout.partial / f"{archive}.{size_bytes}.need").touch(0o600)


def forget_needs(layout: Layout, archives: Iterable[str]) -> None:
    """Drop the recorded needs of these contents. Raises OSError."""
    for path, _, _ in list(_needs(layout, archives)):
        path.unlink(missing_ok=True)


def drop_interrupted_extractions(layout: Layout) -> None:
    """Drop the files whose extraction a kill interrupted; it starts over. Raises OSError."""
    for path in list(layout.partial.iterdir()):
        if "-" in path.stem and path.suffix in {SUFFIX, MAP_SUFFIX}:
            path.unlink(missing_ok=True)


def _needs(layout: Layout, archives: Iterable[str]) -> Iterator[tuple[Path, str, int]]:
    named = set(archives)
    for path in layout.partial.iterdir():
        found = _NEED.match(path.name)
        if found and found[1] in named:
            yield path, found[1], int(found[2])
