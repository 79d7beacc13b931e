"""Which contents the downloads count on that are not committed yet."""

from collections.abc import Iterable

from agent.store.identity import distinct_files
from shared.manifest import Manifest


class Wanted:
    """The contents of each manifest between its first pin and its commit. Not thread-safe."""

    def __init__(self) -> None:
        self._contents: dict[str, set[str]] = {}

    def add(self, manifest: Manifest, keys: Iterable[str]) -> None:
        """Count on the contents of a manifest, which have these names."""
        self._contents[manifest.digest] = set(keys)

    def end(self, manifest: Manifest) -> set[str]:
        """Count on a manifest no more; returns those of its contents that no other counts on."""
        self._contents.pop(manifest.digest, None)
        return set(distinct_files(manifest)).difference(*self._contents.values())

    def keep(self, manifests: Iterable[Manifest]) -> None:
        """Count on no others than these any more."""
        digests = {manifest.digest for manifest in manifests}
        self._contents = {digest: keys for digest, keys in self._contents.items() if digest in digests}
