"""Contents that are entering a store: locked, written, sealed, made durable, and pinned until the commit."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from agent.store import staging, unpacked
from agent.store.disk import translated
from agent.store.download_plan import DownloadPlan
from agent.store.partials import Partial, open_partial
from agent.store.removal import remove_blobs
from agent.store.state import StoreState
from shared.manifest import File


class Incoming:
    """Stores the contents that downloads and archives deliver; `staging` describes the states of a content."""

    def __init__(self, state: StoreState) -> None:
        self._state, self._layout, self._lock = state, state.layout, state.lock

    def pin(self, plan: DownloadPlan) -> dict[str, str]:
        """Keep the plan's existing contents until its commit; return their SHA-256 by path."""
        inventory = self._state.inventory
        with self._lock, translated(f"linking in {self._layout.root}"):
            found: dict[str, str] = {}
            self._state.pending.add(plan)
            for file in plan.manifest.files:
                key = plan.keys[file.path]
                if sha256 := inventory.find_blob(key, file.size):
                    staging.pin_blob(self._layout, key, sha256)
                    found[file.path] = sha256
            unpacked.pin_members(self._layout, inventory, plan)
            return found

    def unpin(self, plan: DownloadPlan) -> None:
        """Release contents that were pinned only for this commit; the caller holds the lock. Raises OSError.

        Archives are removed too, unless another download is unpacking them.
        """
        state = self._state
        keys = state.pending.end(plan)
        if archives := set(plan.archive_keys.values()) & keys:
            keys -= archives
            archives = state.content_locks.unlocked(archives)
            unpacked.forget_needs(self._layout, archives)
            remove_blobs(self._layout, staging.unpin(state.inventory, archives))
            state.used.invalidate()
        staging.unpin(state.inventory, keys)
        state.inventory.invalidate()

    def uses_page_cache(self, plan: DownloadPlan) -> bool:
        """Return whether a model is written through the page cache: it fits, or its archives are read right after."""
        return bool(plan.archives) or self._state.disk.fits_page_cache(plan.manifest.size_bytes)

    @contextmanager
    def lock(self, key: str, stop: threading.Event) -> Iterator[bool]:
        """Lock a content exclusively; yield False if `stop` is set while another holds it."""
        held = self._state.content_locks.acquire(key, stop)
        try:
            yield held
        finally:
            if held:
                self._state.content_locks.release(key)

    @contextmanager
    def open(
        self,
        key: str,
        file: File,
        stop: threading.Event,
        *,
        cached: bool = True,
        before_wait: Callable[[], None] = lambda: None,
    ) -> Iterator[Partial | None]:
        """Lock and open the unfinished file of a content; yield None if `stop` is set while another holds it.

        `cached` is passed to `open_partial`, `before_wait` to `ContentLocks.acquire`.
        """
        state = self._state
        if not state.content_locks.acquire(key, stop, before_wait):
            yield None
            return
        with self._lock:
            state.used.begin_writing()
        try:
            partial = open_partial(self._layout.partial, key, file.size, digest=bool(file.digest), cached=cached)
            try:
                yield partial
            finally:
                partial.close()
        finally:
            with self._lock:
                state.used.end_writing()
            state.content_locks.release(key)

    def seal(self, partial: Partial) -> None:
        """Make a verified partial file ready for `put_blobs`; after a kill it still counts as complete."""
        with translated(f"sealing {partial.place}"):
            staging.seal(partial)

    def put_blob(self, partial: Partial, sha256: str) -> None:
        """Turn a verified partial file into a durable blob and keep it until the commit."""
        staging.make_durable(partial, self._state.disk)
        with self._lock, translated(f"adding {partial.place} to the blobs"):
            staging.promote(self._layout, partial, sha256)
            self._state.inventory.add_known(partial.key, sha256)

    def put_blobs(self, sealed: Sequence[tuple[Partial, str]]) -> None:
        """Turn many sealed partial files into blobs by their SHA-256, like `put_blob`, with one sync for all."""
        state = self._state
        staging.make_all_durable([partial for partial, _ in sealed], state.descriptor, state.disk)
        with self._lock, translated(f"adding small files to the blobs of {self._layout.root}"):
            for partial, sha256 in sealed:
                staging.promote(self._layout, partial, sha256)
                state.inventory.add_known(partial.key, sha256)
