"""Which stored manifests are no longer needed. No input or output, no clock."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

References = Mapping[str, Collection[str]]  # digests of manifests, and the namespaces whose models refer to each


@dataclass(frozen=True, slots=True)
class StoredManifest:
    """A manifest in its ConfigMap; `namespace` is its creator's, `listing` is the digest of the whole one."""

    digest: str
    uid: str
    version: str
    namespace: str = ""
    listing: str = ""
    size_bytes: int = 0


def unreferenced(manifests: Iterable[StoredManifest], referenced: Collection[str]) -> dict[str, StoredManifest]:
    """Return the unreferenced manifests, by digest; a part counts as a reference to the whole one."""
    known = list(manifests)
    needed = {*referenced, *(manifest.listing for manifest in known if manifest.digest in referenced)}
    return {manifest.digest: manifest for manifest in known if manifest.digest not in needed}


def unreferenced_since(digests: Iterable[str], before: Mapping[str, float], now_s: float) -> dict[str, float]:
    """Return when each became unreferenced; one that was needed in between starts over."""
    return {digest: before.get(digest, now_s) for digest in digests}


def overdue(since: Mapping[str, float], now_s: float, grace_s: float) -> frozenset[str]:
    """Return the digests that have been unreferenced for the whole grace period."""
    return frozenset(digest for digest, at in since.items() if now_s - at >= grace_s)


def charges(manifests: Iterable[StoredManifest], references: References) -> dict[str, tuple[str, int]]:
    """Return the namespace that each manifest is charged to: its creator's, or another that still refers to it.

    Whoever refers to a part refers to the whole manifest. A cluster-scoped model, of namespace "", has no limit: what
    it refers to is not charged to anyone else.
    """
    known, users = list(manifests), {digest: set(found) for digest, found in references.items()}
    for manifest in known:
        if manifest.listing:
            users.setdefault(manifest.listing, set()).update(references.get(manifest.digest, ()))
    return {
        manifest.digest: (_owner(manifest, users.get(manifest.digest, ())), manifest.size_bytes) for manifest in known
    }


def _owner(manifest: StoredManifest, users: Collection[str]) -> str:
    return manifest.namespace if not users or manifest.namespace in users else min(users)
