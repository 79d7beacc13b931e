"""The state that the parts of a store share, and the locks that guard it.

Two kinds of locks, always taken in this order:

1. `StoreState.content_locks`: one lock per content. Only its holder writes `partial/KEY.part` and `KEY.map`, and may
   keep the lock for hours. Downloads that lock several archives lock them in the order of their names.
2. `StoreState.lock`: one re-entrant lock for everything else that two threads could change:
   - in memory: `inventory`, `used`, `pending`, `leaving`, and the ledger of `StoreSpace`;
   - on the disk: names in `blobs/sha256`, pins and `.need` files in `partial/`, and names of snapshots and their files.
     A blob is removed when nothing else links it, so checking its links, linking it and unlinking it must not overlap.

No thread waits for a content while it holds `lock`; `content_locks.unlocked` does not wait.
Bytes are written, synced and hashed without `lock`. The same goes for directories with an ignored name: a snapshot is
built in `.tmp-*` and removed as `.gone-*`. Blobs of a snapshot being built stay, because pins link them, too.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from agent.store.disk import Disk
from agent.store.download_plan import DownloadPlan
from agent.store.inventory import Inventory
from agent.store.layout import Layout
from agent.store.tree import lasting_bytes


class ContentLocks:
    """Exclusive locks on contents that are being written; a second writer waits for the first."""

    def __init__(self) -> None:
        self._held: set[str] = set()
        self._changed = threading.Condition()

    def acquire(self, key: str, stop: threading.Event, before_wait: Callable[[], None] = lambda: None) -> bool:
        """Wait for the content and lock it; return False if `stop` is set first.

        `before_wait` is called before each wait. A caller that holds other locks must release them there, because two
        downloads that wait for each other's locks would deadlock.
        """
        while not self._acquire_free(key):
            if stop.is_set():
                return False
            before_wait()
            with self._changed:
                if key in self._held:
                    self._changed.wait(0.2)  # setting `stop` does not wake this condition
        return True

    def _acquire_free(self, key: str) -> bool:
        with self._changed:
            if key in self._held:
                return False
            self._held.add(key)
            return True

    def unlocked(self, keys: Iterable[str]) -> set[str]:
        """Return the contents that are not locked."""
        with self._changed:
            return set(keys) - self._held

    def release(self, key: str) -> None:
        """Unlock the content for the next writer."""
        with self._changed:
            self._held.discard(key)
            self._changed.notify_all()


class UsedBytes:
    """The bytes below a directory, cached because waiting entries need them constantly. Not thread-safe."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._known: int | None = None
        self._writers = 0

    def read(self) -> int:
        """Return the size in bytes, counted again only if it may have changed. Raises OSError."""
        if self._known is None or self._writers:
            self._known = lasting_bytes(self._top)
        return self._known

    def invalidate(self) -> None:
        """Recount on the next read, because something was removed or others may have written."""
        self._known = None

    def begin_writing(self) -> None:
        """Recount on every read until `end_writing` has been called as many times."""
        self._writers += 1

    def end_writing(self) -> None:
        """End one `begin_writing`."""
        self._writers -= 1
        self._known = None


class PendingContents:
    """The contents that each download needs between its first pin and its commit. Not thread-safe."""

    def __init__(self) -> None:
        self._contents: dict[str, set[str]] = {}

    def add(self, plan: DownloadPlan) -> None:
        """Record that a download needs its contents."""
        self._contents[plan.digest] = set(plan.keys.values())

    def end(self, plan: DownloadPlan) -> set[str]:
        """Drop a download; return its contents that no other download needs."""
        self._contents.pop(plan.digest, None)
        return set(plan.keys.values()).difference(*self._contents.values())

    def keep(self, plans: Iterable[DownloadPlan]) -> None:
        """Drop all downloads except these."""
        digests = {plan.digest for plan in plans}
        self._contents = {digest: keys for digest, keys in self._contents.items() if digest in digests}


@dataclass(slots=True)
class StoreState:
    """The state that the parts of one store share.

    Attributes:
        layout: Where everything is.
        disk: The port to the file system.
        descriptor: An open descriptor of the root, which holds the lock against other processes; -1 once closed.
        lock: See above.
        content_locks: See above.
        inventory: What is on the disk.
        used: The bytes below the root.
        pending: Contents that downloads need and that are not committed yet.
        leaving: SHA-256 of the blobs of a removal in progress, which removes and counts them itself.
    """

    layout: Layout
    disk: Disk
    descriptor: int
    inventory: Inventory = field(init=False)
    used: UsedBytes = field(init=False)
    lock: threading.RLock = field(default_factory=threading.RLock, init=False)
    content_locks: ContentLocks = field(default_factory=ContentLocks, init=False)
    pending: PendingContents = field(default_factory=PendingContents, init=False)
    leaving: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        """Start with nothing read."""
        self.inventory, self.used = Inventory(self.layout), UsedBytes(self.layout.root)
