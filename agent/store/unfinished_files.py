"""Drops unfinished and uncommitted files that nothing needs any more."""

from collections.abc import Collection, Mapping

from agent.store import staging, unpacked
from agent.store.blobs import Blobs
from agent.store.content_keys import belongs_to
from agent.store.disk import translated
from agent.store.download_plan import DownloadPlan
from agent.store.idle_counts import count_round, read_counts, write_counts
from agent.store.removal import remove_blobs
from agent.store.state import StoreState


class UnfinishedFiles:
    """Drops what downloads left in `partial/`; unless stated otherwise, files locked by a download are kept."""

    def __init__(self, state: StoreState, blobs: Blobs) -> None:
        self._state, self._layout, self._lock, self._blobs = state, state.layout, state.lock, blobs

    def any_outside(self, plans: Collection[DownloadPlan]) -> bool:
        """Return whether there are unfinished or uncommitted files that none of these plans needs."""
        kept = {key for plan in plans for key in plan.keys.values()}
        with translated(f"reading {self._layout.partial}"):
            return any(not belongs_to(key, kept) for key in staging.stamps(self._layout))

    def discard(self, plan: DownloadPlan) -> None:
        """Drop the unfinished and uncommitted files of an unwanted model, except those that other models need."""
        with self._lock:
            keys = self._state.pending.end(plan)
        self._drop_free(keys)

    def drop_idle(self, keep: Collection[DownloadPlan], rounds: int) -> int:
        """Drop uncommitted files outside `keep` that stayed untouched for `rounds` calls; return how many."""
        kept = self._keep(keep)
        with translated(f"reading {self._layout.partial}"):
            counts = count_round(read_counts(self._layout.idle), staging.stamps(self._layout))
            write_counts(self._layout.idle, counts)
        idle = {key for key, seen in counts.items() if seen.rounds >= rounds and not belongs_to(key, kept)}
        return self._drop_free(idle)

    def drop_unreferenced(self, keep: Collection[DownloadPlan]) -> None:
        """Drop unfinished and uncommitted files outside the kept plans, and blobs that no snapshot names.

        Blobs of a snapshot that is being removed are left to that removal.
        """
        kept = self._keep(keep)
        with translated(f"reading {self._layout.partial}"):
            present = staging.stamps(self._layout).keys()
        self._drop_free({key for key in present if not belongs_to(key, kept)})
        with self._lock, translated(f"removing blobs in {self._layout.blobs}"):
            self._blobs.remove_unreferenced()
            self._state.used.invalidate()

    def drop_members(self, plan: DownloadPlan) -> None:
        """Drop extracted files that are not committed, but keep their archives. The caller has locked all archives."""
        archives = set(plan.archive_keys.values())
        self._drop({k for k in staging.stamps(self._layout) if "-" in k and k.partition("-")[0] in archives})

    def drop_oversized_archives(self, plan: DownloadPlan, needs: Mapping[str, int]) -> None:
        """Drop archives whose files do not fit, with their extracted files, and record the bytes that the files need.

        `needs` maps the path of each examined archive to the bytes of its files. The caller has locked all archives.
        """
        self._drop(set(plan.archive_keys.values()))
        with self._lock, translated(f"writing in {self._layout.partial}"):
            unpacked.note_needs(self._layout, {plan.keys[path]: size for path, size in needs.items()})

    def _keep(self, plans: Collection[DownloadPlan]) -> set[str]:
        """Return the keys of the wanted plans' files, and forget all other plans."""
        with self._lock:
            self._state.pending.keep(plans)
        return {key for plan in plans for key in plan.keys.values()}

    def _drop_free(self, keys: set[str]) -> int:
        """Drop those of these contents that no download has locked; return how many."""
        free = self._state.content_locks.unlocked(keys)
        self._drop(free)
        return len(free)

    def _drop(self, keys: set[str]) -> None:
        with self._lock, translated(f"dropping unfinished files in {self._layout.partial}"):
            remove_blobs(self._layout, staging.drop(self._layout, self._state.inventory, keys))
            unpacked.forget_needs(self._layout, keys)
            self._state.used.invalidate()
            self._state.inventory.invalidate()
