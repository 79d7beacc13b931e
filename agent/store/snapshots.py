"""The snapshots of a store: read, committed, repaired and removed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from agent.store.commit import install, prepare, remove_empty
from agent.store.disk import translated
from agent.store.download_plan import DownloadPlan
from agent.store.incoming import Incoming
from agent.store.removal import is_ours, move_to_trash, remove_blob, try_remove
from agent.store.snapshot import (
    ArchiveContents,
    Completed,
    CompletedFile,
    Snapshot,
    completed_of,
    damaged_paths,
    is_directory,
    read_snapshot,
)
from agent.store.state import StoreState
from agent.store.tree import put_file, put_mark, remove_tree, sync_directory
from agent.store.unpacked import find_complete
from shared.errors import FilesInUse, StoreFailure
from shared.paths import COMPLETED


class Snapshots:
    """The complete revisions of models; a snapshot is usable only while its `damaged` is empty."""

    def __init__(self, state: StoreState, incoming: Incoming) -> None:
        self._state, self._layout, self._lock, self._incoming = state, state.layout, state.lock, incoming

    def all(self) -> list[Snapshot]:
        """Return every snapshot with a valid mark, its files checked by stat."""
        with self._lock:
            self._state.used.invalidate()
            return self._state.inventory.snapshots()

    def check(self, snapshot: Snapshot) -> list[str]:
        """Return the paths that stat shows to be missing, or changed in size, time stamp or inode."""
        return damaged_paths(self._layout, snapshot)

    def directories(self) -> list[Path]:
        """Return the directories that contain only models' own files: those of models and their snapshots."""
        with self._lock:
            return list(self._state.inventory.directories())

    def find_unpacked(self, plan: DownloadPlan) -> dict[str, ArchiveContents]:
        """Return the earlier contents of the plan's archives by path, if all their files are still here."""
        with self._lock:
            return find_complete(self._state.inventory, plan)

    def commit(
        self,
        plan: DownloadPlan,
        identity: str,
        digests: Mapping[str, str],
        unpacked: Sequence[ArchiveContents] = (),
    ) -> Snapshot:
        """Make the snapshot from blobs; it appears atomically.

        Args:
            plan: What was downloaded.
            identity: The model's ID.
            digests: SHA-256 of the blobs by path.
            unpacked: The files that replace the plan's archives, which are not kept.
        """
        revision = plan.manifest.revision
        mark = completed_of(plan.manifest, identity, digests, unpacked)
        if existing := self._existing(identity, plan):
            return existing
        with translated(f"committing {identity} {revision}"):
            self._check_blobs(mark)
            tmp = prepare(self._layout, mark, self._state.disk)
            with self._lock:
                trash = install(self._layout, tmp, mark, self._state.disk)
                self._incoming.unpin(plan)
                self._state.used.invalidate()
            if trash:
                try_remove(trash)
        return self._written(identity, revision)

    def repair(
        self,
        snapshot: Snapshot,
        plan: DownloadPlan,
        digests: Mapping[str, str],
        unpacked: Sequence[ArchiveContents] = (),
        in_use: Callable[[], bool] = lambda: False,
    ) -> Snapshot:
        """Replace the damaged files of a snapshot in place with downloaded blobs; arguments as in `commit`.

        Another manifest of the same revision may list the same contents, such as that of a mirror. Then only the mark
        changes. Else the whole directory is replaced, unless pods use it: a mount would lead to the removed one. Raises
        FilesInUse.
        """
        mark = completed_of(plan.manifest, snapshot.id, digests, unpacked)
        same = snapshot.manifest_digest == plan.digest or _contents(snapshot.files) == _contents(mark.files)
        if not same and is_directory(snapshot.path) and in_use():
            raise FilesInUse(
                f"pods on this node use {snapshot.path}, and the files of {plan.manifest.uri} differ from those there, "
                "although the revision is the same; they are replaced once no pod on this node uses them"
            )
        if not same or not is_directory(snapshot.path):
            return self.commit(plan, snapshot.id, digests, unpacked)
        damaged = [path for path in self.check(snapshot) if path != COMPLETED]
        blobs = {file.path: file.sha256 for file in mark.files}
        for path in damaged:
            with self._lock, translated(f"repairing {snapshot.path / path}"):
                put_file(snapshot.path, path, self._layout.blob(blobs[path]), self._state.disk)
        with self._lock, translated(f"repairing {snapshot.path}"):
            put_mark(snapshot.path, mark.encode(), self._state.disk)
            self._incoming.unpin(plan)
        return self._written(snapshot.id, snapshot.revision)

    def remove(self, identity: str, revision: str, freed: Callable[[int], None] = lambda _: None) -> None:
        """Remove a snapshot and the blobs that only it linked; leave foreign files alone, and ignore missing ones.

        `freed` is called with the bytes of each removed blob.
        """
        target = self._layout.snapshot(identity, revision)
        with translated(f"removing {target}"):
            with self._lock:
                snapshot = None if target.parent.is_symlink() else read_snapshot(self._layout, target)
                digests = {f.sha256 for f in snapshot.files} if snapshot else set()
                trash = self._move_to_trash(target)
                self._state.leaving |= digests
            try:
                if trash:
                    remove_tree(trash)
                for sha256 in digests:
                    with self._lock:  # separately for each: a large file takes a while, and downloads wait for the lock
                        size = remove_blob(self._layout, sha256)
                    freed(size)
            finally:
                with self._lock:
                    self._state.leaving -= digests
            with self._lock:
                self._state.used.invalidate()
                self._state.inventory.invalidate()
                remove_empty(target.parent)

    def _existing(self, identity: str, plan: DownloadPlan) -> Snapshot | None:
        """Return the snapshot a commit would create if it already exists untouched: pods may have it mounted."""
        found = read_snapshot(self._layout, self._layout.snapshot(identity, plan.manifest.revision))
        if not found or found.manifest_digest != plan.digest or self.check(found):
            return None
        with self._lock, translated(f"unlinking in {self._layout.partial}"):
            self._incoming.unpin(plan)
        return found

    def _check_blobs(self, mark: Completed) -> None:
        for file in mark.files:
            if not self._state.inventory.has_blob(file.sha256, file.size):
                raise StoreFailure(
                    f"{self._layout.root} no longer has the content of {file.path!r} ({file.size} bytes, sha256 "
                    f"{file.sha256}); it is downloaded again"
                )

    def _written(self, identity: str, revision: str) -> Snapshot:
        target = self._layout.snapshot(identity, revision)
        if found := read_snapshot(self._layout, target):
            return found
        raise StoreFailure(f"{target} was removed as soon as it was written; it is committed again")

    def _move_to_trash(self, target: Path) -> Path | None:
        for path in (target.parent, target):
            if path.is_symlink() or path.is_file():
                path.unlink()
                return None
        if not is_directory(target) or not is_ours(self._layout, target):
            return None
        trash = move_to_trash(target)
        sync_directory(target.parent, self._state.disk)
        return trash


def _contents(files: Iterable[CompletedFile]) -> dict[str, str]:
    return {file.path: file.sha256 for file in files}
