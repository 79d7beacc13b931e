"""Lists the members of a model's archives before anything is written."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent.archive.members import ArchiveTotals, Member, Oversize, UnpackLimits, check_together, count_names
from agent.archive.unpack import list_archive
from agent.store.content_keys import members_manifest
from agent.store.download_plan import DownloadPlan
from agent.store.snapshot import ArchiveContents, CompletedFile
from agent.store.store import Store
from agent.transfer.stored_archive import StoredArchive
from shared.manifest import File

_NO_LIMIT = 2**63


class ArchivesDoNotFit(Exception):
    """The archives' files do not fit next to the archives; `needs` has their minimum size, by archive path.

    Archives that were not listed before this became clear are not in `needs`.
    """

    def __init__(self, needs: Mapping[str, int]) -> None:
        super().__init__(f"{needs} bytes or more")
        self.needs = needs


@dataclass(frozen=True, slots=True)
class ListedArchive:
    """An archive whose members are listed; `contents` has one file per distinct content.

    `digests` has the SHA-256 of those already in the store, by path.
    """

    archive: StoredArchive
    members: tuple[Member, ...]
    contents: DownloadPlan
    digests: dict[str, str]

    @property
    def missing(self) -> list[File]:
        """The files not yet in the store."""
        return [file for file in self.contents.manifest.files if file.path not in self.digests]

    def unpacked(self) -> ArchiveContents:
        """Return the contents of the archive, whose files are all in the store."""
        files = tuple(CompletedFile(m.path, m.size, self.digests[m.content_path]) for m in self.members)
        file = self.archive.file
        return ArchiveContents(CompletedFile(file.path, file.size, self.archive.sha256, file.digest, file.etag), files)


def list_archives(
    store: Store,
    plan: DownloadPlan,
    archives: Sequence[StoredArchive],
    found: Mapping[str, ArchiveContents],
    *,
    max_bytes: int | None,
    stop: threading.Event,
    count: Callable[[int], None],
) -> list[ListedArchive]:
    """Return the members of the archives; a tar.gz is decompressed for this.

    Args:
        store: Where the archives are.
        plan: The model's files.
        archives: The archives to list.
        found: The model's other archives, unpacked earlier; the limits apply to all together.
        max_bytes: Limit on the total bytes in these archives; None for no limit.
        stop: Ends the work within a second once set.
        count: Called with the size of each chunk read from archives that must be decompressed.

    Raises:
        ArchivesDoNotFit: They hold more than `max_bytes`.
        LarderError: One of the errors of `agent.archive.unpack.list_archive`.
        Stopped: `stop` was set.
    """
    listed, needs = list[ListedArchive](), dict[str, int]()
    limits, totals = UnpackLimits(_NO_LIMIT if max_bytes is None else max_bytes), ArchiveTotals()
    for earlier in found.values():
        count_names((file.path for file in earlier.files), limits, totals)
    for archive in archives:
        bytes_before = totals.bytes
        counted: Callable[[int], None] = count if archive.is_decompressed_to_list else lambda _: None
        try:
            with archive.opened(store, stop, counted) as file:
                members = list_archive(file, archive.format, limits, totals)
        except Oversize as error:
            raise ArchivesDoNotFit({**needs, archive.file.path: error.size_bytes - bytes_before}) from None
        needs[archive.file.path] = totals.bytes - bytes_before
        listed.append(_listed(store, plan, archive, members))
    return listed


def _listed(store: Store, plan: DownloadPlan, archive: StoredArchive, members: tuple[Member, ...]) -> ListedArchive:
    own = [File(m.path, m.size) for m in members if m.content_path == m.path]
    contents = DownloadPlan(members_manifest(plan.keys[archive.file.path], own))
    digests = {f.path: sha256 for f in own if (sha256 := store.blobs.find(contents.keys[f.path], f.size))}
    return ListedArchive(archive, members, contents, digests)


def list_paths(
    plan: DownloadPlan, found: Mapping[str, ArchiveContents], listed: Sequence[ListedArchive]
) -> dict[str, list[str]]:
    """Return the paths of each archive's files, by the path of the archive; under "" are the model's other files.

    `found` are archives unpacked earlier.
    """
    archives = plan.archive_keys
    paths = {"": [f.path for f in plan.manifest.files if f.path not in archives]}
    paths |= {path: [f.path for f in contents.files] for path, contents in found.items()}
    return paths | {one.archive.file.path: [m.path for m in one.members] for one in listed}


def check_names(paths: Mapping[str, Sequence[str]]) -> None:
    """Raise UnsafePath if files of one archive clash with another's, or with the model's other files.

    `paths` is what `list_paths` returned. Raises TooManyFiles if there are too many files together.
    """
    check_together(paths, UnpackLimits(_NO_LIMIT))
