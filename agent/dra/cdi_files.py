"""The CDI files of prepared claims, in the directory that the container runtime reads."""

import json
import os
import re
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.dra import DRIVER
from shared.errors import StoreFailure

_UID = re.compile(r"[0-9a-zA-Z-]{1,63}")
_FILE = re.compile(rf"{re.escape(DRIVER)}-([0-9a-zA-Z-]{{1,63}})\.json")
_TMP = f"{DRIVER}-*.tmp"


@dataclass(frozen=True, slots=True)
class CdiFiles:
    """One file per claim, written atomically; every method may be called from any thread."""

    folder: Path

    def path(self, uid: str) -> Path:
        """Return the path for a claim. Raises StoreFailure if the uid is not a valid file name."""
        if not _UID.fullmatch(uid):
            raise StoreFailure(f"{uid!r} is not the uid of a claim")
        return self.folder / f"{DRIVER}-{uid}.json"

    def write(self, uid: str, content: dict[str, Any]) -> None:
        """Write the file of a claim atomically. Raises StoreFailure."""
        path = self.path(uid)
        tmp = path.with_suffix(f".{threading.get_ident()}.tmp")  # not *.json: the runtime reads those
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            tmp.write_text(json.dumps(content))
            tmp.chmod(0o644)
            tmp.replace(path)
        except OSError as error:
            with suppress(OSError):
                tmp.unlink()  # on a full disk, it would take up space until the driver restarts
            raise StoreFailure(f"cannot write {path}: {error.strerror}") from error

    def remove(self, uid: str) -> None:
        """Remove the file of a claim, if there is one. Raises StoreFailure."""
        path = self.path(uid)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreFailure(f"cannot remove {path}: {error.strerror}") from error

    def uids(self) -> set[str]:
        """Return the claims that have a file."""
        return {match[1] for name in self._names() if (match := _FILE.fullmatch(name))}

    def drop_unfinished(self) -> int:
        """Remove temporary files that a crash left behind; return their number."""
        dropped = 0
        for path in self.folder.glob(_TMP):
            with suppress(OSError):
                path.unlink()
                dropped += 1
        return dropped

    def _names(self) -> Iterable[str]:
        try:
            return os.listdir(self.folder)  # noqa: PTH208 - only names are needed
        except OSError:
            return ()
