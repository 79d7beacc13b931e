"""The layouts that `larder fetch` writes: files by their own names, or as `huggingface_hub` caches them.

    DIR/models--org--repo/blobs/<digest>                         each file once, named as the hub names its content
    DIR/models--org--repo/snapshots/<commit>/config.json         a link to ../../blobs/<digest>
    DIR/models--org--repo/refs/main                              the commit that the revision last referred to

https://huggingface.co/docs/huggingface_hub/guides/manage-cache
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agent.cli.target import WORK_DIRECTORY, safe_path
from agent.store.disk import translated
from shared.errors import InvalidURI
from shared.manifest import File, Manifest
from shared.paths import check_path
from shared.uri.model_uri import HfUri, parse_uri

_SNAPSHOTS, _REFS, _BLOBS = "snapshots", "refs", "blobs"


class FetchLayout(Protocol):
    """Where the files of a model belong."""

    @property
    def target(self) -> Path:
        """The directory that one fetch at a time may change."""

    def path_of(self, file: File, key: str) -> str:
        """Return where the bytes of a file belong.

        Args:
            file: A file of the manifest.
            key: Name of its content, from `identity.content_key`.

        Returns:
            A path below the target.
        """

    def resolve(self, place: str) -> Path:
        """Return the real path of a place, where there need not be a file.

        Args:
            place: A path from `path_of`.

        Returns:
            The path to open.

        Raises:
            UnsafePath: A symbolic link leads out of the target.
        """

    def directory(self, manifest: Manifest) -> Path:
        """Return the directory in which readers find the files by their own names.

        Args:
            manifest: The files.

        Returns:
            The directory, which may not exist before `finish`.
        """

    def finish(self, manifest: Manifest, keys: Mapping[str, str]) -> None:
        """Make the files visible to readers, once all their bytes are in place.

        Args:
            manifest: The files.
            keys: The name of each file's content, by path.

        Raises:
            StoreFailure: The directory cannot be written.
            UnsafePath: A symbolic link leads out of the target.
        """


@dataclass(frozen=True, slots=True)
class PlainDirectory:
    """The files by their own names, directly below the target, which the caller named `to`."""

    to: Path
    target: Path

    def path_of(self, file: File, key: str) -> str:
        """See `FetchLayout.path_of`."""
        del key
        return file.path

    def resolve(self, place: str) -> Path:
        """See `FetchLayout.resolve`."""
        return safe_path(self.target, place)

    def directory(self, manifest: Manifest) -> Path:
        """See `FetchLayout.directory`."""
        del manifest
        return self.to

    def finish(self, manifest: Manifest, keys: Mapping[str, str]) -> None:
        """See `FetchLayout.finish`. There is nothing left to do."""


@dataclass(frozen=True, slots=True)
class HubCache:
    """A repository in a cache of `huggingface_hub`, which may have put files there itself."""

    target: Path
    revision: str

    def path_of(self, file: File, key: str) -> str:
        """See `FetchLayout.path_of`. The name is the digest that the hub sends as the entity tag."""
        return f"{_BLOBS}/{file.digest.partition(':')[2] or key}"

    def resolve(self, place: str) -> Path:
        """See `FetchLayout.resolve`. `huggingface_hub` may have linked it to a shared file of several repositories."""
        return _resolved(safe_path(self.target, place))

    def directory(self, manifest: Manifest) -> Path:
        """See `FetchLayout.directory`."""
        return self.target / _SNAPSHOTS / manifest.revision

    def finish(self, manifest: Manifest, keys: Mapping[str, str]) -> None:
        """See `FetchLayout.finish`. The commit is named last, so that no reader finds a partial snapshot."""
        for file in manifest.files:
            name = f"{_SNAPSHOTS}/{manifest.revision}/{file.path}"
            blob = self.path_of(file, keys[file.path])
            _ensure_link(self._prepared(name), "../" * name.count("/") + blob, self._temporary)
        if self.revision != manifest.revision:
            _write(self._prepared(f"{_REFS}/{self.revision}"), manifest.revision, self._temporary)

    def _prepared(self, name: str) -> Path:
        path = safe_path(self.target, name)
        with translated(f"creating {path.parent}"):
            path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @property
    def _temporary(self) -> Path:
        return self.target / WORK_DIRECTORY / "linking"


def plain_directory(to: Path) -> PlainDirectory:
    """Return the layout of a directory."""
    return PlainDirectory(to, _resolved(to))


def hub_cache(uri: str, cache: Path) -> HubCache:
    """Return the layout of a model in a cache. Raises InvalidURI if the model is not on a hub, UnsafePath."""
    parsed = parse_uri(uri)
    if not isinstance(parsed, HfUri):
        raise InvalidURI(f"{uri} is not on a hub, and --layout hub is only for models that are; leave out --layout")
    check_path(f"{_REFS}/{parsed.revision}")
    return HubCache(_resolved(cache / parsed.cache_directory), parsed.revision)


def _resolved(path: Path) -> Path:
    return Path(os.path.realpath(path))  # Path.resolve() can raise; here, the first use of the path reports the error


def _ensure_link(path: Path, destination: str, temporary: Path) -> None:
    """Make `path` a symbolic link, in place of any other file."""
    with translated(f"linking {path}"):
        with suppress(OSError):
            if str(path.readlink()) == destination:
                return
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(destination)
        temporary.rename(path)


def _write(path: Path, text: str, temporary: Path) -> None:
    with translated(f"writing {path}"):
        temporary.unlink(missing_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.rename(path)
