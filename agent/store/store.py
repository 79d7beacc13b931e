"""The store: what one node holds, and the only way to change it."""

import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from agent.linux.flock import lock_directory
from agent.store import staging, unpacked
from agent.store.commit import install, prepare, remove_empty
from agent.store.content_count import ContentCount
from agent.store.disk import Disk, RealDisk, translated
from agent.store.identity import concerns, content_key, distinct_files, keys_by_path, source_key, without
from agent.store.idle import counted, read_counts, write_counts
from agent.store.inventory import Inventory
from agent.store.layout import Layout
from agent.store.opening import ensure_identity, ensure_layout
from agent.store.overhead import content_overhead, snapshot_overhead
from agent.store.partials import ContentLocks, Partial, held_spans, open_partial
from agent.store.removal import blob_digests, is_ours, leftovers, remove_blob, remove_blobs, remove_litter, set_aside
from agent.store.reservations import Bounds, Ledger, StoreRoom, refuse, room_left, shortage
from agent.store.snapshot import (
    ArchiveContents,
    Completed,
    Snapshot,
    completed_of,
    damaged_paths,
    is_directory,
    read_snapshot,
)
from agent.store.tree import allocated_bytes, put_file, put_mark, remove_tree, sync_directory
from agent.store.wanted import Wanted
from shared.archives import find_archives
from shared.errors import InsufficientStorage, StoreFailure
from shared.manifest import File, Manifest
from shared.paths import COMPLETED


class Store:
    """One root directory, locked by this process. All methods block and may be called from any thread.

    Methods that touch the disk raise InsufficientStorage or StoreFailure when it fails.
    """

    def __init__(self, layout: Layout, identity: str, disk: Disk, lock: int) -> None:
        self.id = identity
        self.root = layout.root
        self._layout, self._disk, self._descriptor = layout, disk, lock
        self._inventory, self._ledger, self._holds, self._wanted = Inventory(layout), Ledger(), ContentLocks(), Wanted()
        self._lock = threading.RLock()
        self._leaving = set[str]()  # digests that a removal frees, and counts, itself
        self._content = ContentCount(layout.root)

    @classmethod
    def open(cls, root: Path, *, disk: Disk | None = None) -> "Store":
        """Create what is missing of the layout, lock the root, and return the store."""
        real = disk or RealDisk()
        with translated(f"opening the store {root} as uid {os.geteuid()}"):
            root.mkdir(parents=True, exist_ok=True)
            layout = Layout(root.resolve())
            lock = lock_directory(layout.root, layout.holder)
            try:
                ensure_layout(layout)
                return cls(layout, ensure_identity(layout, real), real, lock)
            except BaseException:
                os.close(lock)
                raise

    def close(self) -> None:
        """Release the lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def sweep(self) -> None:
        """Finish what a kill interrupted: once, at start, before anything else. Unfinished files are kept."""
        with self._lock, translated(f"sweeping {self.root}"):
            for path in list(leftovers(self._layout)):
                remove_litter(path)
            unpacked.drop_cut_off(self._layout)
            staging.settle_all(self._layout, self._inventory)
            staging.unpin(self._inventory, unpacked.settled_archives(self._inventory))
            self._remove_unreferenced()
            self._inventory.forget()

    # Contents.

    def snapshots(self) -> list[Snapshot]:
        """Return every snapshot with a valid mark; a snapshot is usable only while its `damaged` is empty."""
        with self._lock:
            self._content.forget()
            return self._inventory.snapshots()

    def find(self, identity: str, revision: str) -> Snapshot | None:
        """Return one snapshot, as `snapshots` would."""
        found = (s for s in self.snapshots() if (s.id, s.revision) == (identity, revision))
        return next(found, None)

    def check(self, snapshot: Snapshot) -> list[str]:
        """Return paths damaged by stat: missing, or with another size, time stamp or inode; `.completed` may be one."""
        return damaged_paths(self._layout, snapshot)

    def find_blob(self, manifest: Manifest, file: File) -> str | None:
        """Return the SHA-256 of a file that this manifest's source served before, if its bytes are still here."""
        return self._find(content_key(source_key(manifest.uri), manifest.revision, file), file.size)

    def blob_path(self, sha256: str) -> Path:
        """Return the path of the blob with this digest, whether or not it exists."""
        return self._layout.blob(sha256)

    def blobs(self) -> dict[str, Path]:
        """Return the path of each content by SHA-256: its blob, or a file of a snapshot if the blob was removed."""
        with self._lock, translated(f"reading {self._layout.blobs}"):
            linked = {f.sha256: s.path / f.path for s in self._inventory.marked() for f in s.files}
            return linked | {sha256: self._layout.blob(sha256) for sha256 in blob_digests(self._layout)}

    def directories(self) -> list[Path]:
        """Return the directories in which every name belongs to a model: those of models and their snapshots."""
        with self._lock:
            return list(self._inventory.directories())

    @property
    def blobs_directory(self) -> Path:
        """The directory of the blobs."""
        return self._layout.blobs

    @property
    def scrub_file(self) -> Path:
        """The file that stores the scrub's position."""
        return self._layout.scrub

    def missing_bytes(self, manifest: Manifest) -> int:
        """Return how many bytes are still to be downloaded, without those in unfinished files.

        The files of archives count in addition to the archives, as far as they are known.
        """
        missing = self._missing(manifest)
        fetched = sum(
            file.size - held_spans(self._layout.partial, key, file.size, digest=bool(file.digest)).size_bytes
            for key, file in missing.items()
        )
        if not find_archives(manifest.files):
            return fetched
        with self._lock, translated(f"reading {self._layout.partial}"):
            return fetched + unpacked.missing_bytes(self._layout, self._inventory, manifest)

    def overhead_bytes(self, manifest: Manifest, identity: str) -> int:
        """Return the disk space beyond `missing_bytes`: partly filled blocks, and directories and mark of a new model.

        For the files of archives, use `unpacked_overhead_bytes`.
        """
        block = self._disk_block()
        found = read_snapshot(self._layout, self._layout.snapshot(identity, manifest.revision))
        is_new = found is None or found.manifest_digest != manifest.digest
        content = content_overhead(self._missing(manifest).values(), block)
        return content + (snapshot_overhead(manifest, identity, block) if is_new else 0)

    def unpacked_overhead_bytes(self, members: Manifest, missing: Iterable[File]) -> int:
        """Return how many bytes an archive's files take beyond their content; `missing` are those not here yet."""
        block = self._disk_block()
        return content_overhead(missing, block) + snapshot_overhead(members, "", block)

    def _disk_block(self) -> int:
        with translated(f"asking for the size of {self.root}"):
            return os.statvfs(self.root).f_frsize

    def find_unpacked(self, manifest: Manifest) -> dict[str, ArchiveContents]:
        """Return the earlier contents of the manifest's archives by path, if all their files are still here."""
        with self._lock:
            found = unpacked.find_unpacked(self._inventory, manifest)
            return {path: one for path, one in found.items() if not unpacked.missing_members(self._inventory, one)}

    # Space.

    def used_bytes(self) -> int:
        """Return the allocated blocks below the root in bytes, each inode counted once, as `du` counts."""
        with translated(f"counting {self.root}"):
            return allocated_bytes(self._layout.root)

    def reserved_bytes(self) -> int:
        """Return the bytes that are reserved and have not arrived."""
        with self._lock:
            return self._ledger.promised()

    def disk_free(self) -> int:
        """Return how many more bytes the file system can take."""
        with translated(f"asking for the free space of {self.root}"):
            return self._disk.free_bytes(self.root)

    def disk_size(self) -> int:
        """Return the size of the file system in bytes, used and free."""
        with translated(f"asking for the size of {self.root}"):
            return psutil.disk_usage(str(self.root)).total

    def reserve(self, key: str, need: int, limit: int, floor: int) -> None:
        """Reserve `need` bytes for a key, replacing its previous reservation. An exact fit is accepted.

        Args:
            key: The reservation's name.
            need: Bytes to reserve.
            limit: Bound on all that the store holds in bytes, as `du` counts it (0: no limit).
            floor: Bytes of the file system that must stay free.

        Raises:
            InsufficientStorage: They do not fit; the message has the numbers.
            StoreFailure: The space could not be read.
        """
        with self._lock, translated(f"counting {self.root}"):
            self._check_room(key, need, Bounds(limit, floor))
            self._ledger.promise(key, need, Bounds(limit, floor))

    def renew(self, key: str, need: int) -> None:
        """Change a key's reservation to `need` bytes, under its original bounds.

        For a key without a reservation, only check that the disk has space.
        """
        with self._lock, translated(f"counting {self.root}"):
            bounds = self._ledger.bounds(key)
            self._check_room(key, need, bounds or Bounds())
            if bounds:
                self._ledger.promise(key, need, bounds)

    def room_to_unpack(self, key: str, manifest: Manifest) -> int:
        """Return how many bytes the manifest's archives may unpack to under the bounds of this key's reservation."""
        with self._lock, translated(f"counting {self.root}"):
            left = room_left(self._ledger.promised(but=key), self._room(self._ledger.bounds(key) or Bounds()))
            return max(0, left) + unpacked.pinned_bytes(self._inventory, self._archives(manifest))

    def arrived(self, key: str, size_bytes: int) -> None:
        """Subtract bytes that are on the disk now from a reservation; negative if they were discarded."""
        with self._lock:
            self._ledger.arrived(key, size_bytes)

    def release(self, key: str) -> None:
        """Drop the reservation of a key."""
        with self._lock:
            self._ledger.withdraw(key)

    # Incoming bytes.

    @contextmanager
    def hold(self, manifest: Manifest, file: File, stop: threading.Event) -> Iterator[bool]:
        """Lock a content exclusively; yield False if `stop` is set while another holds it."""
        key = content_key(source_key(manifest.uri), manifest.revision, file)
        held = self._holds.take(key, stop)
        try:
            yield held
        finally:
            if held:
                self._holds.give_back(key)

    def caches(self, manifest: Manifest) -> bool:
        """Tell whether a model goes through the page cache: it fits there, or is read again at once."""
        return bool(find_archives(manifest.files)) or self._disk.keeps(manifest.size_bytes)

    @contextmanager
    def partial(
        self,
        manifest: Manifest,
        file: File,
        stop: threading.Event,
        *,
        cached: bool = True,
        before_wait: Callable[[], None] = lambda: None,
    ) -> Iterator[Partial | None]:
        """Lock and open the unfinished file of a content; yield None if `stop` is set while another holds it.

        `cached` is passed to `open_partial`, `before_wait` to `ContentLocks.take`.
        """
        key = content_key(source_key(manifest.uri), manifest.revision, file)
        if not self._holds.take(key, stop, before_wait):
            yield None
            return
        with self._lock:
            self._content.begin_writing()
        try:
            partial = open_partial(self._layout.partial, key, file.size, digest=bool(file.digest), cached=cached)
            try:
                yield partial
            finally:
                partial.close()
        finally:
            with self._lock:
                self._content.end_writing()
            self._holds.give_back(key)

    def put_blob(self, partial: Partial, sha256: str) -> None:
        """Turn a verified partial file into a durable blob and keep it until the commit."""
        staging.make_durable(partial, self._disk)
        with self._lock, translated(f"entering {partial.place}"):
            staging.enter(self._layout, partial, sha256)
            self._inventory.learn(partial.key, sha256)

    def seal(self, partial: Partial) -> None:
        """Make a verified partial file ready for `put_blobs`; after a kill it still counts as complete."""
        with translated(f"sealing {partial.place}"):
            staging.seal(partial)

    def put_blobs(self, sealed: Sequence[tuple[Partial, str]]) -> None:
        """Turn many sealed partial files into blobs by their SHA-256, like `put_blob`, with one sync for all."""
        staging.make_all_durable([partial for partial, _ in sealed], self._descriptor, self._disk)
        with self._lock, translated(f"entering small files in {self.root}"):
            for partial, sha256 in sealed:
                staging.enter(self._layout, partial, sha256)
                self._inventory.learn(partial.key, sha256)

    def pin(self, manifest: Manifest) -> dict[str, str]:
        """Keep the manifest's existing contents until its commit; return their SHA-256 by path."""
        with self._lock, translated(f"linking in {self.root}"):
            found: dict[str, str] = {}
            keys = keys_by_path(manifest.uri, manifest.revision, manifest.files)
            self._wanted.add(manifest, keys.values())
            for file in manifest.files:
                if sha256 := self._find(keys[file.path], file.size):
                    staging.pin_blob(self._layout, keys[file.path], sha256)
                    found[file.path] = sha256
            unpacked.pin_members(self._layout, self._inventory, manifest)
            return found

    # Snapshots.

    def commit(
        self, manifest: Manifest, identity: str, digests: Mapping[str, str], became: Sequence[ArchiveContents] = ()
    ) -> Snapshot:
        """Make the snapshot from blobs; it appears atomically.

        Args:
            manifest: The manifest.
            identity: The model's ID.
            digests: SHA-256 of the blobs by path.
            became: The files that replace the manifest's archives, which are not kept.
        """
        mark = completed_of(manifest, identity, digests, became)
        if standing := self._standing(identity, manifest):
            return standing
        with translated(f"committing {identity} {manifest.revision}"):
            self._check_blobs(mark)
            tmp = prepare(self._layout, mark, self._disk)
            with self._lock:
                aside = install(self._layout, tmp, mark, self._disk)
                self._unpin(manifest)
                self._content.forget()
            if aside:
                remove_litter(aside)
        return self._written(identity, manifest.revision)

    def repair(
        self, snapshot: Snapshot, manifest: Manifest, digests: Mapping[str, str], became: Sequence[ArchiveContents] = ()
    ) -> Snapshot:
        """Repair the damaged files of a snapshot in place from blobs that are here again; `became` as in `commit`."""
        mark = completed_of(manifest, snapshot.id, digests, became)
        if snapshot.manifest_digest != manifest.digest or not is_directory(snapshot.path):
            return self.commit(manifest, snapshot.id, digests, became)
        damaged = [path for path in self.check(snapshot) if path != COMPLETED]
        blobs = {file.path: file.sha256 for file in mark.files}
        for path in damaged:
            self.repair_file(snapshot, path, blobs[path])
        with self._lock, translated(f"mending {snapshot.path}"):
            put_mark(snapshot.path, mark.encode(), self._disk)
            self._unpin(manifest)
        return self._written(snapshot.id, snapshot.revision)

    def repair_file(self, snapshot: Snapshot, path: str, blob: str) -> None:
        """Replace a damaged file by the blob with this SHA-256: a new link, renamed over the old one."""
        with self._lock, translated(f"mending {snapshot.path / path}"):
            put_file(snapshot.path, path, self._layout.blob(blob), self._disk)

    def set_aside_and_remove(self, identity: str, revision: str, freed: Callable[[int], None] = lambda _: None) -> None:
        """Remove a snapshot and the blobs that only it linked; others' files are left alone, missing ones ignored.

        `freed` is called with the bytes of each removed blob.
        """
        target = self._layout.snapshot(identity, revision)
        with translated(f"removing {target}"):
            with self._lock:
                snapshot = None if target.parent.is_symlink() else read_snapshot(self._layout, target)
                digests = {f.sha256 for f in snapshot.files} if snapshot else set()
                aside = self._set_aside(target)
                self._leaving |= digests
            try:
                if aside:
                    remove_tree(aside)
                for sha256 in digests:
                    with self._lock:  # separately for each: a large file takes a while, and downloads wait for the lock
                        size = remove_blob(self._layout, sha256)
                    freed(size)
            finally:
                with self._lock:
                    self._leaving -= digests
            with self._lock:
                self._content.forget()
                self._inventory.forget()
                remove_empty(target.parent)

    def discard(self, manifest: Manifest) -> None:
        """Drop the unfinished and uncommitted files of an unwanted model, except those that others need."""
        with self._lock:
            keys = self._wanted.end(manifest)
        self._drop(keys)

    def drop_idle(self, keep: Collection[Manifest], rounds: int) -> int:
        """Drop uncommitted files outside `keep` that stayed untouched for `rounds` calls; return how many."""
        kept = self._kept(keep)
        with translated(f"reading {self._layout.partial}"):
            counts = counted(read_counts(self._layout.idle), staging.stamps(self._layout))
            write_counts(self._layout.idle, counts)
        idle = {key for key, seen in counts.items() if seen.rounds >= rounds and not concerns(key, kept)}
        self._drop(idle)
        return len(idle)

    def drop_oversized_archive(self, manifest: Manifest, needs: Mapping[str, int]) -> None:
        """Drop archives whose files do not fit, with their extracted files, and record how many bytes those need.

        `needs` has the bytes by archive path, for the archives examined. The caller holds all archives.
        """
        names = unpacked.archive_names(manifest)
        self._drop_now(set(names.values()))
        with self._lock, translated(f"writing in {self._layout.partial}"):
            unpacked.note_needs(self._layout, {names[path]: size for path, size in needs.items()})

    def drop_members(self, manifest: Manifest) -> None:
        """Drop extracted files that are not committed, but keep their archives. The caller holds the archives."""
        archives = self._archives(manifest)
        self._drop_now({k for k in staging.stamps(self._layout) if "-" in k and k.partition("-")[0] in archives})

    def drop_unreferenced(self, keep: Collection[Manifest]) -> None:
        """Drop unfinished and uncommitted files outside the kept manifests, and blobs that no snapshot names.

        A removal in progress removes its own blobs.
        """
        kept = self._kept(keep)
        with translated(f"reading {self._layout.partial}"):
            standing = staging.stamps(self._layout).keys()
        self._drop({key for key in standing if not concerns(key, kept)})
        with self._lock, translated(f"removing blobs in {self._layout.blobs}"):
            self._remove_unreferenced()
            self._content.forget()

    def drop_orphans(self) -> int:
        """Remove blobs that no snapshot names and no download keeps; return how many.

        A removal leaves none, but somebody may have removed a snapshot by hand.
        """
        with self._lock, translated(f"removing blobs in {self._layout.blobs}"):
            count = self._remove_unreferenced()
            if count:
                self._content.forget()
                self._inventory.forget()
            return count

    def _kept(self, keep: Collection[Manifest]) -> set[str]:
        """Return the contents of the wanted manifests; from here on, no others count as needed."""
        with self._lock:
            self._wanted.keep(keep)
        return {key for manifest in keep for key in distinct_files(manifest)}

    def _remove_unreferenced(self) -> int:
        marked = {f.sha256 for snapshot in self._inventory.marked() for f in snapshot.files}
        return remove_blobs(self._layout, (d for d in blob_digests(self._layout) if d not in marked | self._leaving))

    def _drop(self, keys: set[str]) -> None:
        self._drop_now(self._holds.free(keys))

    def _drop_now(self, keys: set[str]) -> None:
        with self._lock, translated(f"discarding in {self._layout.partial}"):
            remove_blobs(self._layout, staging.drop(self._layout, self._inventory, keys))
            unpacked.forget_needs(self._layout, keys)
            self._content.forget()
            self._inventory.forget()

    def _find(self, key: str, size: int) -> str | None:
        with self._lock:
            return self._inventory.find_blob(key, size)

    def _check_room(self, key: str, need: int, bounds: Bounds) -> None:
        promised, room = self._ledger.promised(but=key), self._room(bounds)
        if refusal := refuse(need, promised, room):
            raise InsufficientStorage(refusal, shortage(need, promised, room))

    def _room(self, bounds: Bounds) -> StoreRoom:
        return StoreRoom(self._content.read(), bounds.limit, self.disk_free(), bounds.floor)

    def _missing(self, manifest: Manifest) -> dict[str, File]:
        needed = without(manifest, self.find_unpacked(manifest))
        return {key: file for key, file in distinct_files(needed).items() if not self._find(key, file.size)}

    def _archives(self, manifest: Manifest) -> set[str]:
        return set(unpacked.archive_names(manifest).values())

    def _standing(self, identity: str, manifest: Manifest) -> Snapshot | None:
        """Return the snapshot a commit would create if it already exists untouched: pods may have it mounted."""
        found = read_snapshot(self._layout, self._layout.snapshot(identity, manifest.revision))
        if not found or found.manifest_digest != manifest.digest or self.check(found):
            return None
        with self._lock, translated(f"unlinking in {self._layout.partial}"):
            self._unpin(manifest)
        return found

    def _unpin(self, manifest: Manifest) -> None:
        """Release what was kept for a commit and no other commit needs.

        Archives are removed too, unless another download is unpacking them.
        """
        keys = self._wanted.end(manifest)
        if archives := self._archives(manifest) & keys:
            keys -= archives
            archives = self._holds.free(archives)
            unpacked.forget_needs(self._layout, archives)
            remove_blobs(self._layout, staging.unpin(self._inventory, archives))
            self._content.forget()
        staging.unpin(self._inventory, keys)
        self._inventory.forget()

    def _check_blobs(self, mark: Completed) -> None:
        for file in mark.files:
            if not self._inventory.has_blob(file.sha256, file.size):
                raise StoreFailure(
                    f"the bytes of {file.path!r} ({file.size} bytes, sha256 {file.sha256}) are not in {self.root} any "
                    "more; they are fetched again"
                )

    def _written(self, identity: str, revision: str) -> Snapshot:
        target = self._layout.snapshot(identity, revision)
        if found := read_snapshot(self._layout, target):
            return found
        raise StoreFailure(f"{target} was removed as soon as it was written; it is made again")

    def _set_aside(self, target: Path) -> Path | None:
        for path in (target.parent, target):
            if path.is_symlink() or path.is_file():
                path.unlink()
                return None
        if not is_directory(target) or not is_ours(self._layout, target):
            return None
        aside = set_aside(target)
        sync_directory(target.parent, self._disk)
        return aside
