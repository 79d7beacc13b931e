"""The archive: files are added one by one, and the last two list what it contains and what is missing."""

import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

import msgspec

from shared.kube.objects import timestamp

ROOT = "larder-support"
INDEX, ERRORS = "index.json", "errors.txt"


@dataclass(frozen=True, slots=True)
class BundleFile:
    """One file of the bundle."""

    file: str
    what: str
    size_bytes: int
    left_out: int = 0


@dataclass(slots=True)
class Bundle:
    """A tar.gz being written; `errors` has one line for each thing that could not be read."""

    archive: tarfile.TarFile
    now: datetime
    contents: list[BundleFile] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    complete: bool = False

    def add(self, file: str, what: str, data: bytes, left_out: int = 0) -> None:
        """Add a file; `left_out` is the number of objects that did not fit into it."""
        self.contents.append(BundleFile(file, what, len(data), left_out))
        self._write(file, data)

    def record_missing(self, what: str, reason: str) -> None:
        """Record what is not in the bundle, and why."""
        self.errors.append(f"{what}: {reason}")

    def close(self) -> None:
        """Write the errors and the index."""
        text = "\n".join(self.errors) or "everything was read"
        self.add(ERRORS, "what is missing, and why", f"{text}\n".encode())
        files = [asdict(c) for c in sorted(self.contents, key=lambda c: c.file)]
        index = {"made": timestamp(self.now), "files": files}
        self._write(INDEX, msgspec.json.format(msgspec.json.encode(index), indent=2))
        self.complete = True

    def _write(self, file: str, data: bytes) -> None:
        entry = tarfile.TarInfo(f"{ROOT}/{file}")
        entry.size, entry.mode, entry.mtime = len(data), 0o600, int(self.now.timestamp())
        self.archive.addfile(entry, io.BytesIO(data))


@contextmanager
def open_bundle(path: Path, now: datetime) -> Iterator[Bundle]:
    """Yield a bundle at `path`, readable only by its owner, and keep it if it was closed. Raises OSError."""
    draft = path.with_name(f".{path.name}.part")
    try:
        draft.unlink(missing_ok=True)  # left by a kill, or put there by somebody who wants to read the bundle
        draft.touch(mode=0o600, exist_ok=False)
        with tarfile.open(draft, "w:gz") as archive:
            bundle = Bundle(archive, now)
            yield bundle
        if bundle.complete:
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
