"""Disk space that a model takes beyond the bytes of its files: plain arithmetic.

It is never underestimated for a complete model. A file system allocates whole blocks: for the end of each file, for
each directory and for the mark. Directories also grow with the names in them. All models share the directories of blobs
and unfinished files, which never shrink.
"""

from collections import Counter
from collections.abc import Iterable

from agent.store.snapshot import completed_of
from agent.store.tree import blocks_bytes, parents_of
from shared.manifest import File, Manifest
from shared.paths import COMPLETED

_NAME_BYTES = 16  # besides each name in a directory; directory blocks are at least half full
_SHARED_NAMES_BYTES = 1024  # per new content, in the directories of blobs and unfinished files
_SHA256 = "0" * 64


def content_overhead(missing: Iterable[File], block: int) -> int:
    """Return how many bytes missing files take beyond their content."""
    files = list(missing)
    ends = sum(blocks_bytes(f.size, block) - f.size for f in files)
    return ends + blocks_bytes(len(files) * _SHARED_NAMES_BYTES, block)


def snapshot_overhead(manifest: Manifest, identity: str, block: int) -> int:
    """Return how many bytes a new snapshot of these files takes: its directories, the model's, and the mark."""
    mark = completed_of(manifest, identity, {f.path: _SHA256 for f in manifest.files}).encode()
    names = Counter[str]()
    for path in (COMPLETED, *(f.path for f in manifest.files)):
        names.update(dict.fromkeys(parents_of(path), 0))
        directory, _, name = path.rpartition("/")
        names[directory] += 2 * (len(name.encode()) + _NAME_BYTES)
    directories = sum(max(block, blocks_bytes(size, block)) for size in names.values())
    return directories + block + blocks_bytes(len(mark), block)
