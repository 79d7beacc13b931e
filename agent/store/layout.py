"""The paths below the store's root."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from shared.errors import UnsafePath
from shared.names import short_id

TMP_PREFIX = ".tmp-"
GONE_PREFIX = ".gone-"
_LONGEST_NAME_BYTES = 200  # with a prefix and a random suffix, a name stays below the 255 bytes of file systems


@dataclass(frozen=True)
class Layout:
    """The paths of one store."""

    root: Path

    @cached_property
    def blobs(self) -> Path:
        """Each distinct file once, named by the SHA-256 of its bytes."""
        return self.root / "blobs" / "sha256"

    @property
    def models(self) -> Path:
        """One directory per model, with one directory per revision."""
        return self.root / "models"

    @cached_property
    def partial(self) -> Path:
        """Unfinished files, and links that keep verified ones until the commit."""
        return self.root / "partial"

    @property
    def identity(self) -> Path:
        """The store's ID."""
        return self.root / "store.json"

    @property
    def idle(self) -> Path:
        """How long unfinished files have been idle."""
        return self.root / "idle.json"

    @property
    def scrub(self) -> Path:
        """The scrub's position."""
        return self.root / "scrub.json"

    @property
    def holder(self) -> Path:
        """The holder of the lock, for the error message to the next process."""
        return self.root / "holder"

    def blob(self, sha256: str) -> Path:
        """Return the path of the blob with this digest."""
        return self.blobs / sha256

    def model(self, identity: str) -> Path:
        """Return the directory of a model's revisions."""
        name = short_id(identity)
        if not _is_name(name):
            raise UnsafePath(f"model id {identity!r} is not a directory name")
        return self.models / name

    def snapshot(self, identity: str, revision: str) -> Path:
        """Return the directory of one revision."""
        if not _is_name(revision):
            raise UnsafePath(f"revision {revision!r} is not a directory name")
        return self.model(identity) / revision


def _is_name(text: str) -> bool:
    return (
        bool(text)
        and not text.startswith(".")
        and "/" not in text
        and "\0" not in text
        and len(os.fsencode(text)) <= _LONGEST_NAME_BYTES
    )
