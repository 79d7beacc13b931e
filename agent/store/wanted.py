"""The contents that downloads need and that are not committed yet."""

from collections.abc import Iterable

from agent.store.identity import distinct_files
from shared.manifest import Manifest


class Wanted:
    """The contents of each manifest between its first pin and its commit. Not thread-safe."""

    def __init__(self) -> None:
        self._contents: dict[str, set[str]] = {}

    def add(self, manifest: Manifest, keys: Iterable[str]) -> None:
        """Record that a manifest needs these contents."""
        self._contents[manifest.digest] = set(keys)

    def end(self, manifest: Manifest) -> set[str]:
        """Drop a manifest; return those of its contents that no other manifest needs."""
        self._contents.pop(manifest.digest, None)
        return set(distinct_files(manifest)).difference(*self._contents.values())

    def keep(self, manifests: Iterable[Manifest]) -> None:
        """Drop all manifests except these."""
        digests = {manifest.digest for manifest in manifests}
        self._contents = {digest: keys for digest, keys in self._contents.items() if digest in digests}
