"""The store: what one node holds, and the only way to change it."""

import os
from pathlib import Path

from agent.linux.flock import lock_directory, unlock
from agent.store import staging, unpacked
from agent.store.blobs import Blobs
from agent.store.disk import Disk, RealDisk, translated
from agent.store.incoming import Incoming
from agent.store.layout import Layout, ensure_layout, ensure_store_id
from agent.store.removal import leftovers, try_remove
from agent.store.snapshots import Snapshots
from agent.store.space import StoreSpace
from agent.store.state import StoreState
from agent.store.unfinished_files import UnfinishedFiles


class Store:
    """One root directory, locked by this process, and its parts.

    All methods of the parts block and may be called from any thread; `state` has the locks. Methods that touch the disk
    raise InsufficientStorage or StoreFailure when it fails.

    Attributes:
        id: The store's ID.
        layout: The paths below the root.
        space: Used, free and reserved bytes.
        blobs: Each distinct content once.
        incoming: Contents being written, until the commit.
        unfinished: Dropping contents that are no longer wanted.
        snapshots: The complete revisions of models.
    """

    def __init__(self, identity: str, state: StoreState) -> None:
        self.id, self.layout, self._state = identity, state.layout, state
        self.space = StoreSpace(state)
        self.blobs = Blobs(state)
        self.incoming = Incoming(state)
        self.unfinished = UnfinishedFiles(state, self.blobs)
        self.snapshots = Snapshots(state, self.incoming)

    @classmethod
    def open(cls, root: Path, *, disk: Disk | None = None) -> "Store":
        """Create what is missing of the layout, lock the root, and return the store."""
        real = disk or RealDisk()
        with translated(f"opening the store {root} as uid {os.geteuid()}"):
            root.mkdir(parents=True, exist_ok=True)
            layout = Layout(root.resolve())
            descriptor = lock_directory(layout.root, layout.holder)
            try:
                ensure_layout(layout)
                return cls(ensure_store_id(layout, real), StoreState(layout, real, descriptor))
            except BaseException:
                os.close(descriptor)
                raise

    def close(self) -> None:
        """Release the lock on the root."""
        if self._state.descriptor >= 0:
            unlock(self._state.descriptor)
            self._state.descriptor = -1

    def recover(self) -> None:
        """Finish what a kill interrupted: once, at start, before anything else. Unfinished files are kept."""
        layout, inventory = self.layout, self._state.inventory
        with self._state.lock, translated(f"recovering {layout.root}"):
            for path in list(leftovers(layout)):
                try_remove(path)
            unpacked.drop_interrupted_extractions(layout)
            staging.finish_links(layout, inventory)
            staging.unpin(inventory, unpacked.committed_archives(inventory))
            self.blobs.remove_unreferenced()
            inventory.invalidate()

    def restore_directories(self) -> None:
        """Create directories of the layout again that someone has removed while the store is open."""
        with self._state.lock, translated(f"restoring the directories of {self.layout.root}"):
            ensure_layout(self.layout)

    @property
    def root(self) -> Path:
        """The root directory."""
        return self.layout.root
