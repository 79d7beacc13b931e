"""Repositories: commits of files, branches that move, and read access."""

import hashlib
import threading
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

_LFS_SUFFIXES = {".bin", ".ckpt", ".gguf", ".h5", ".onnx", ".pt", ".pth", ".safetensors"}
_LFS_FROM_BYTES = 10 * 1024 * 1024
_MIB = 1024 * 1024


@dataclass(frozen=True)
class RepositoryFile:
    """One file of a commit; `oid` is its git blob id (of the pointer for LFS), `sha256` is set only for LFS."""

    path: str
    size: int
    oid: str
    content: Path
    sha256: str | None = None

    @property
    def etag(self) -> str:
        """The entity tag of the hub: the SHA-256 of an LFS file, else the git blob id."""
        return self.sha256 or self.oid

    def as_tree(self) -> dict[str, Any]:
        """Return the entry as in a tree listing."""
        listed: dict[str, Any] = {"type": "file", "oid": self.oid, "size": self.size, "path": self.path}
        if self.sha256:
            pointer = len(pointer_to(self.sha256, self.size))
            listed["lfs"] = {"oid": self.sha256, "size": self.size, "pointerSize": pointer}
        return listed


@dataclass(frozen=True)
class RepositoryAccess:
    """Read access: for everybody, or for holders of `tokens`; unless `gated`, the repository is hidden from others."""

    tokens: frozenset[str] | None = None
    gated: bool = False


@dataclass
class Repository:
    """Commits by id, branches by name."""

    access: RepositoryAccess
    commits: dict[str, dict[str, RepositoryFile]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)

    def commit_of(self, revision: str) -> str | None:
        """Return the commit that a branch, tag or full commit id names."""
        return self.branches.get(revision) or (revision if revision in self.commits else None)


class Repositories:
    """All repositories; pushed files are copied, so later changes need another push."""

    def __init__(self, state: Path) -> None:
        self._contents = state / "contents"
        self._lock = threading.Lock()
        self._repositories: dict[str, Repository] = {}

    def get(self, name: str) -> Repository | None:
        """Return a repository by `owner/name`."""
        with self._lock:
            return self._repositories.get(name)

    def content(self, sha256: str) -> RepositoryFile | None:
        """Return any LFS file with this digest, from any commit."""
        with self._lock:
            commits = [commit for one in self._repositories.values() for commit in one.commits.values()]
        return next((entry for commit in commits for entry in commit.values() if entry.sha256 == sha256), None)

    def known_tokens(self) -> set[str]:
        """Return all tokens that grant access to any repository."""
        with self._lock:
            return {token for one in self._repositories.values() for token in one.access.tokens or ()}

    def push(self, name: str, folder: Path, branch: str = "main", access: RepositoryAccess | None = None) -> str:
        """Commit the files of a directory, move the branch there and return the commit; None keeps the access."""
        entries = {entry.path: entry for entry in (self._add(folder, path) for path in _files(folder))}
        with self._lock:
            repository = self._repositories.setdefault(name, Repository(RepositoryAccess()))
            repository.access = access or repository.access
            listing = "".join(f"{entry.etag} {entry.path}\n" for entry in entries.values())
            parent = repository.branches.get(branch, "")
            commit = _sha1(f"{name}\n{parent}\n{listing}".encode())
            repository.commits[commit] = entries
            repository.branches[branch] = commit
        return commit

    def head(self, name: str, branch: str) -> str:
        """Return the commit that a branch of a repository names."""
        with self._lock:
            return self._repositories[name].branches[branch]

    def move(self, name: str, branch: str, commit: str) -> None:
        """Point a branch of a repository to another of its commits."""
        with self._lock:
            self._repositories[name].branches[branch] = commit

    def add_entry(self, name: str, branch: str, entry: RepositoryFile) -> None:
        """Add an entry to the commit of a branch unchecked, such as a path with `..` or a wrong digest."""
        repository = self._repositories[name]
        with self._lock:
            repository.commits[repository.branches[branch]][entry.path] = entry

    def _add(self, folder: Path, path: Path) -> RepositoryFile:
        sha256, oid, size = _digests(path)
        kept = self._contents / sha256
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(path.read_bytes())
        name = PurePosixPath(path.relative_to(folder)).as_posix()
        if path.suffix in _LFS_SUFFIXES or size >= _LFS_FROM_BYTES:
            return RepositoryFile(name, size, git_blob_id(pointer_to(sha256, size)), kept, sha256)
        return RepositoryFile(name, size, oid, kept)


def git_blob_id(content: bytes) -> str:
    """Return the git blob id of these bytes."""
    return _sha1(b"blob %d\0" % len(content) + content)


def git_tree_id(path: str) -> str:
    """Return an id for a directory; it does not depend on the contents."""
    return _sha1(b"tree %s" % path.encode())


def pointer_to(sha256: str, size: int) -> bytes:
    """Return the LFS pointer that git stores instead of a large file."""
    return f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n".encode()


def _sha1(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def _digests(path: Path) -> tuple[str, str, int]:
    size = path.stat().st_size
    sha256, blob = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as file:
        while piece := file.read(_MIB):
            sha256.update(piece)
            blob.update(piece)
    return sha256.hexdigest(), blob.hexdigest(), size


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())
