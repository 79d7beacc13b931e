"""A manifest with what every step of its download needs: the content names of its files."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import cached_property

from agent.store.identity import keys_by_path
from shared.archives import find_archives
from shared.manifest import File, Manifest


@dataclass(frozen=True)
class DownloadPlan:
    """A manifest to download. What hashing yields is computed once, by the thread that asks first."""

    manifest: Manifest

    @cached_property
    def digest(self) -> str:
        """The manifest's digest."""
        return self.manifest.digest

    @cached_property
    def keys(self) -> Mapping[str, str]:
        """The content name of each file, by path (`identity.content_key`)."""
        return keys_by_path(self.manifest.uri, self.manifest.revision, self.manifest.files)

    @cached_property
    def archives(self) -> tuple[File, ...]:
        """The files that are unpacked, each with `archive` set."""
        return tuple(find_archives(self.manifest.files))

    @property
    def archive_keys(self) -> dict[str, str]:
        """The content name of each archive, by path."""
        return {file.path: self.keys[file.path] for file in self.archives}

    def contents(self, *, without: Container[str] = ()) -> dict[str, File]:
        """Return one file for each distinct content, by content name, in manifest order.

        Paths in `without` are skipped; a content that another path has too remains.
        """
        found: dict[str, File] = {}
        for file in self.manifest.files:
            if file.path not in without:
                found.setdefault(self.keys[file.path], file)
        return found
