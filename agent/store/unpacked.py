"""Models that are archives: what became of them before, and how much room their files were found to need.

The contents that come out of an archive are named after it (`identity.members_manifest`), so that they go with it, and
those of another model with the same archive are found. `partial/KEY.BYTES.need` is an empty file: it does not count.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from agent.archive.kinds import archive_kind
from agent.store.identity import content_key, keys_by_path, members_manifest, source_key
from agent.store.inventory import Inventory
from agent.store.layout import Layout
from agent.store.partials import MAP_SUFFIX, SUFFIX
from agent.store.snapshot import CompletedFile, Unpacked, key_of_archive, source_file
from agent.store.staging import pin_blob
from shared.manifest import Manifest

_NEED = re.compile(r"^([0-9a-f]{64})\.([0-9]+)\.need$")


def is_archive(manifest: Manifest) -> bool:
    """Tell whether the model is an archive, of which the files are kept and not itself."""
    return archive_kind(manifest.files) is not None


def archive_key(manifest: Manifest) -> str:
    """Return the name of the content of an archive."""
    return content_key(source_key(manifest.uri), manifest.revision, manifest.files[0])


def find_unpacked(inventory: Inventory, manifest: Manifest) -> Unpacked | None:
    """Return what the manifest's archive became in a snapshot, whether or not that is still untouched."""
    if not is_archive(manifest):
        return None
    key, [archive] = archive_key(manifest), manifest.files
    for snapshot in inventory.marked():
        if snapshot.archive and key_of_archive(snapshot) == key:
            sha256 = snapshot.archive.sha256
            return Unpacked(
                CompletedFile(archive.path, archive.size, sha256, archive.digest, archive.etag), snapshot.files
            )
    return None


def missing_members(inventory: Inventory, unpacked: Unpacked) -> list[CompletedFile]:
    """Return the files whose blobs are not here untouched, one for each content."""
    distinct = {f.sha256: f for f in unpacked.files}
    return [f for f in distinct.values() if not inventory.has_blob(f.sha256, f.size)]


def missing_bytes(layout: Layout, inventory: Inventory, manifest: Manifest) -> int:
    """Return how many bytes the files of an archive will take beside it, as far as that is known."""
    if unpacked := find_unpacked(inventory, manifest):
        return sum(f.size for f in missing_members(inventory, unpacked))
    key = archive_key(manifest)
    needs = (size for _, size in _needs(layout, [key]))
    return max(0, max(needs, default=0) - sum(pin.lstat().st_size for _, pin in _pins_of(inventory, key)))


def pin_members(layout: Layout, inventory: Inventory, manifest: Manifest) -> None:
    """Keep what is here of an archive's files until the commit. Raises OSError."""
    if unpacked := find_unpacked(inventory, manifest):
        members = members_manifest(archive_key(manifest), map(source_file, unpacked.files))
        keys = keys_by_path(members.uri, members.revision, members.files)
        for file in unpacked.files:
            if inventory.has_blob(file.sha256, file.size):
                pin_blob(layout, keys[file.path], file.sha256)


def pinned_bytes(inventory: Inventory, archive: str) -> int:
    """Return how many bytes of an archive's files were unpacked and wait for the commit."""
    return sum(pin.lstat().st_size for pin in dict(_pins_of(inventory, archive)).values())


def settled_archives(inventory: Inventory) -> set[str]:
    """Return the archives of which all files stand in a snapshot: nobody needs them any more."""
    snapshots = (s for s in inventory.marked() if s.archive)
    return {key_of_archive(s) for s in snapshots if all(inventory.has_blob(f.sha256, f.size) for f in s.files)}


def note_need(layout: Layout, archive: str, size_bytes: int) -> None:
    """Remember how many bytes the files of an archive need, at least. Raises OSError."""
    forget_needs(layout, [archive])
    (layout.partial / f"{archive}.{size_bytes}.need").touch(0o600)


def forget_needs(layout: Layout, archives: Iterable[str]) -> None:
    """Drop what was remembered of these contents. Raises OSError."""
    for path, _ in list(_needs(layout, archives)):
        path.unlink(missing_ok=True)


def drop_cut_off(layout: Layout) -> None:
    """Drop the files that were being unpacked when the process ended: they begin anew. Raises OSError."""
    for path in list(layout.partial.iterdir()):
        if "-" in path.stem and path.suffix in {SUFFIX, MAP_SUFFIX}:
            path.unlink(missing_ok=True)


def _needs(layout: Layout, archives: Iterable[str]) -> Iterator[tuple[Path, int]]:
    named = set(archives)
    for path in layout.partial.iterdir():
        found = _NEED.match(path.name)
        if found and found[1] in named:
            yield path, int(found[2])


def _pins_of(inventory: Inventory, archive: str) -> Iterator[tuple[str, Path]]:
    """Yield the SHA-256 and the pin of each file that came out of an archive and waits for the commit."""
    return ((sha256, pin) for key, sha256, pin in inventory.pins() if key.startswith(f"{archive}-"))
