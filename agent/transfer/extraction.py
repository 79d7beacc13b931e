"""Writes the files of listed archives to the store, hashed on the way."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from agent.archive.members import Member
from agent.archive.unpack import MemberContent, unpack_archive
from agent.linux.writeback import Writeback
from agent.store.download_plan import DownloadPlan
from agent.store.partials import Partial
from agent.store.store import Store
from agent.transfer.archive_listing import ListedArchive
from agent.transfer.file_download import SMALL_BYTES
from agent.transfer.progress import Progress
from agent.transfer.receive import Stopped
from shared.manifest import File

_BATCH = 256


@dataclass(frozen=True, slots=True)
class Extraction:
    """Writes files under a reservation, which shrinks as they are written, until `stop` is set."""

    store: Store
    reservation: str
    progress: Progress
    stop: threading.Event

    def write_missing(self, listed: ListedArchive) -> None:
        """Write the files not yet in the store, and record their SHA-256; small ones are synced in batches.

        Raises UnsafePath, InvalidURI, InsufficientStorage, StoreFailure, Stopped.
        """
        missing = {file.path for file in listed.missing}
        members = [member for member in listed.members if member.path in missing]
        with listed.archive.opened(self.store, self.stop) as file, ExitStack() as batch_closing:
            batch: list[tuple[Partial, str]] = []
            for content in unpack_archive(file, listed.archive.format, members):
                with ExitStack() as closing:
                    partial = closing.enter_context(self._partial(listed.contents, content.member))
                    self._copy(content, partial)
                    listed.digests[content.member.path] = content.sha256
                    if content.member.size > SMALL_BYTES:
                        self.store.incoming.put_blob(partial, content.sha256)
                    else:
                        self.store.incoming.seal(partial)
                        batch.append((partial, content.sha256))
                        batch_closing.push(closing.pop_all())
                if len(batch) == _BATCH:
                    self.store.incoming.put_blobs(batch)
                    batch.clear()
                    batch_closing.pop_all().close()
            self.store.incoming.put_blobs(batch)

    def _copy(self, content: MemberContent, partial: Partial) -> None:
        offset, writeback = 0, Writeback(partial.descriptor)
        for chunk in content:
            if self.stop.is_set():
                raise Stopped
            partial.write(memoryview(chunk), offset)
            offset += len(chunk)
            self.store.space.count_arrived(self.reservation, len(chunk))
            self.progress.count_present(len(chunk))
            writeback.reach(offset)

    @contextmanager
    def _partial(self, contents: DownloadPlan, member: Member) -> Iterator[Partial]:
        """Yield the partial file of a member; on failure it is removed, since extraction would start over."""
        with self.store.incoming.open(contents.keys[member.path], File(member.path, member.size), self.stop) as partial:
            if partial is None:
                raise Stopped
            try:
                yield partial
            except BaseException:
                with suppress(OSError):
                    partial.path.unlink(missing_ok=True)
                raise
