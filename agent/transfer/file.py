"""One file from its source to a verified blob, whatever goes wrong on the way."""

import threading
from dataclasses import dataclass, field

from agent.store.partials import Partial
from agent.store.store import Store
from agent.transfer.receive import BytePath, Stopped, receive, rehash
from agent.transfer.retry import RetryPolicy, Timing, pause_before_retry
from agent.transfer.verify import Check
from shared.errors import DigestMismatch, LarderError, SourceChanged
from shared.manifest import File, Manifest


@dataclass(frozen=True, slots=True)
class FileFetcher:
    """Fetches files of one manifest; one object serves all threads of a download.

    `brought` are the paths of which the source gave at least a byte: what else is here, another download left.
    """

    path: BytePath
    manifest: Manifest
    store: Store
    policy: RetryPolicy
    timing: Timing
    brought: set[str] = field(default_factory=set, init=False)

    def fetch(self, file: File, buffer: memoryview, slots: threading.Semaphore) -> str:
        """Return the SHA-256 of the file once its blob is on the disk; `slots` bounds how many receive at a time.

        Raises LarderError, Stopped.
        """
        with self.store.partial(self.manifest, file, self.path.stop) as partial:
            if partial is None:
                raise Stopped
            if sha256 := self.store.find_blob(self.manifest, file):  # another download was faster
                self.path.progress.find(file.size)
                self.path.arrived(file.size - partial.held)
                return sha256
            check = Check(file)
            with slots:
                rehash(self.path, partial, check, buffer)
                held = partial.held
                self._persist(file, partial, check, buffer)
            if held < file.size:
                self.brought.add(file.path)
            self.store.put_blob(partial, check.sha256)
            return check.sha256

    def _persist(self, file: File, partial: Partial, check: Check, buffer: memoryview) -> None:
        """Receive until the file is whole and right, or until trying on makes no sense."""
        failures, held, since, discards = 0, partial.held, self.timing.clock(), 0
        traffic = self.path.progress.traffic
        while True:
            try:
                receive(self.path, file, partial, check, buffer)
                check.verify()
            except DigestMismatch as error:
                self._discard(partial, check)
                traffic.mismatch()
                discards, held = discards + 1, 0
                if discards > 1:
                    raise
                traffic.retry(error)
                self.path.progress.trouble = error
            except SourceChanged:
                self._discard(partial, check)
                raise
            except LarderError as error:
                if partial.held > held:
                    failures, held, since = 0, partial.held, self.timing.clock()
                failures += 1
                self._pause(error, failures, self.timing.clock() - since)
            else:
                traffic.verify(file.size, check.took_s)
                return

    def _pause(self, error: LarderError, failures: int, idle_s: float) -> None:
        progress = self.path.progress
        progress.traffic.fail(error)
        pause_s = pause_before_retry(self.policy, error, failures, idle_s, self.timing.random())
        if pause_s is None:
            raise error
        progress.traffic.retry(error)
        progress.trouble = error
        if self.path.stop.wait(pause_s):
            raise Stopped

    def _discard(self, partial: Partial, check: Check) -> None:
        self.path.progress.find(-partial.held)
        self.path.arrived(-partial.held)
        partial.discard()
        check.restart()
