"""Owner, mode and content of stored models, for comparison."""

import hashlib
import os
from pathlib import Path


def fingerprint(snapshot: Path) -> dict[str, tuple[int, int, int, str]]:
    """Return owner, group, mode and content of all files of a model in the store; other models may change meanwhile."""
    found = {}
    for folder, _, files in os.walk(snapshot.parent):
        for path in [Path(folder), *(Path(folder, name) for name in files)]:
            stat = path.stat()
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            found[str(path)] = (stat.st_uid, stat.st_gid, stat.st_mode, content)
    return found
