"""A manifest with the content names of its files, which every step of its download needs."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import cached_property

from agent.store.content_keys import keys_by_path
from agent.store.list_size import ListSize, list_size
from shared.archives import find_archives
from shared.manifest import File, Manifest


@dataclass(frozen=True)
class DownloadPlan:
    """A manifest to download. Hashes are computed once, by the first thread that needs them."""

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

    @cached_property
    def list_size(self) -> ListSize:
        """The size of the list of files in memory, without the files of archives."""
        files = self.manifest.files
        return list_size((f.path for f in files), (text for f in files for text in (f.digest, f.etag)))

    @property
    def archive_keys(self) -> dict[str, str]:
        """The content name of each archive, by path."""
        return {file.path: self.keys[file.path] for file in self.archives}

    def contents(self, *, without: Container[str] = ()) -> dict[str, File]:
        """Return one file for each distinct content, by content name, in manifest order.

        Paths in `without` are skipped; their content is still returned if another path has it, too.
        """
        found: dict[str, File] = {}
        for file in self.manifest.files:
            if file.path not in without:
                found.setdefault(self.keys[file.path], file)
        return found
