"""Stores manifests, compressed, in immutable ConfigMaps of the release namespace."""

import asyncio
import base64
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from controller.sources.packed_manifests import (
    PART_KEY,
    WHOLE_KEY,
    PackedManifest,
    apply_part,
    pack_selected,
    unpack,
    unpack_part,
)
from shared.decode_errors import DECODE_ERRORS
from shared.errors import NameConflict, SourceChanged, TooManyManifests
from shared.kube.collection import get_object
from shared.kube.edit import create_if_missing, delete_if_present
from shared.kube.objects import Object
from shared.kube.transport import Kube
from shared.manifest import Manifest, decode_manifest
from shared.names import manifest_name
from shared.quantity import format_bytes

LABEL, KIND = "larder.dev/kind", "manifest"
_PART = {"larder.dev/form": "part"}  # older releases without parts cannot read these: docs/operations.md, "Rollback"
URI, REVISION = "larder.dev/uri", "larder.dev/revision"
NAMESPACE, LISTING, SIZE = "larder.dev/namespace", "larder.dev/listing", "larder.dev/bytes"
_MAX_CACHED_BYTES = 32 * 2**20
_DAMAGED = (KeyError, ValueError, zlib.error, *DECODE_ERRORS)


class _ConfigMap(Object, frozen=True, kw_only=True):
    """A ConfigMap's binaryData, in base64."""

    binary_data: dict[str, str] = {}


@dataclass(slots=True)
class Manifests:
    """Stores and finds manifests; those of a namespace may take at most `namespace_bytes` (0: no limit)."""

    kube: Kube
    namespace: str
    namespace_bytes: int = 0
    clock: Callable[[], float] = time.monotonic
    _cache: dict[str, bytes] = field(default_factory=dict, init=False)
    _charged: dict[str, tuple[str, int]] = field(default_factory=dict, init=False)  # namespace and bytes, by digest
    _stored_at: dict[str, float] = field(default_factory=dict, init=False)
    _removing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def store(self, selected: Manifest, listing: Manifest | None = None, charged_to: str = "") -> str:
        """Store a manifest in an immutable ConfigMap.

        Args:
            selected: The files that nodes fetch.
            listing: The full list of the source, which the files were selected from; None if all were.
            charged_to: The namespace whose share of all manifests it counts against; empty for none.

        Returns:
            The digest of `selected`, by which it is found.

        Raises:
            TooManyFiles: It does not fit into a ConfigMap.
            TooManyManifests: The share of the namespace is used up.
            NameConflict: An object that is not Larder's has the name.
            KubeError: The API server did not store it.
        """
        packed = await asyncio.to_thread(pack_selected, selected, listing or selected)  # a long list takes a while
        self._require_room(packed, charged_to)
        for item in packed:
            async with self._removing:
                self._stored_at[item.digest] = self.clock()  # protects it from garbage collection
            if not await create_if_missing(self.kube, self.path, self._config_map(item, charged_to)):
                await self.require_own(item.digest)
            self._charged.setdefault(item.digest, (charged_to, len(item.body)))
        return packed[-1].digest

    async def require_own(self, digest: str) -> None:
        """Raise NameConflict if the ConfigMap named after a digest holds something else, or KubeError."""
        name = manifest_name(digest)
        try:
            found = await get_object(self.kube, f"{self.path}/{name}", _ConfigMap)
            if found is not None:
                await self._unpacked(found, digest)
        except (SourceChanged, *_DAMAGED) as error:
            raise NameConflict(
                f"ConfigMap {name} in namespace {self.namespace} is not the list of files that Larder stores under "
                "that name; delete it, and the model continues within seconds",
                digest,
            ) from error

    async def find(self, digest: str) -> bytes:
        """Return the canonical bytes; raises SourceChanged if they are unavailable, KubeError."""
        known = self._cache.get(digest)
        if known is None:
            known = await self._read(digest)
            self._remember(digest, known)
        return known

    async def remove(self, digest: str, uid: str, version: str, unused_s: float) -> bool:
        """Delete the ConfigMap of a manifest that nothing refers to.

        Args:
            digest: The digest of the manifest.
            uid: The uid of the ConfigMap that was seen.
            version: Its resourceVersion.
            unused_s: Seconds for which it must not have been stored again.

        Returns:
            Whether it is gone.

        Raises:
            KubeError: The API server did not delete it.
        """
        async with self._removing:
            if self.clock() - self._stored_at.get(digest, -unused_s) < unused_s:
                return False
            gone = await delete_if_present(self.kube, f"{self.path}/{manifest_name(digest)}", uid, version)
        self._cache.pop(digest, None)
        self._charged.pop(digest, None)
        return gone

    def charge(self, charged: Mapping[str, tuple[str, int]]) -> None:
        """Set the namespace that each existing manifest is charged to, and its bytes."""
        self._charged = dict(charged)
        oldest_s = self.clock() - 3600
        self._stored_at = {digest: at for digest, at in self._stored_at.items() if at > oldest_s}

    def _require_room(self, packed: Sequence[PackedManifest], charged_to: str) -> None:
        if not charged_to or not self.namespace_bytes:
            return
        new = sum(len(item.body) for item in packed if item.digest not in self._charged)
        used = Counter[str]()
        for namespace, size_bytes in self._charged.values():
            used[namespace] += size_bytes
        if new and used[charged_to] + new > self.namespace_bytes:
            raise TooManyManifests(
                f"the lists of files of namespace {charged_to} take {format_bytes(used[charged_to])}, and this one "
                f"would add {format_bytes(new)}, over the limit of {format_bytes(self.namespace_bytes)} per namespace; "
                "delete models with many files; unused lists are removed within minutes"
            )

    def _remember(self, digest: str, body: bytes) -> None:
        """Cache a manifest: a thousand nodes ask for the same few lists one after the other."""
        self._cache[digest] = body
        while len(self._cache) > 1 and sum(map(len, self._cache.values())) > _MAX_CACHED_BYTES:
            del self._cache[next(iter(self._cache))]

    async def _read(self, digest: str) -> bytes:
        name = manifest_name(digest)
        found = await get_object(self.kube, f"{self.path}/{name}", _ConfigMap)
        if found is None:
            raise SourceChanged(f"ConfigMap {name} with the list of files is gone; the source is queried again")
        try:
            return await self._unpacked(found, digest)
        except _DAMAGED as error:
            raise SourceChanged(
                f"ConfigMap {name} does not contain the list of files it is named after ({type(error).__name__}); "
                "delete it, and the source is queried again"
            ) from error

    async def _unpacked(self, found: _ConfigMap, digest: str) -> bytes:
        if PART_KEY not in found.binary_data:
            return await asyncio.to_thread(unpack, found.binary_data[WHOLE_KEY], digest)
        part = unpack_part(found.binary_data[PART_KEY])
        if part.listing == digest:
            raise ValueError("a part of itself")
        whole = await get_object(self.kube, f"{self.path}/{manifest_name(part.listing)}", _ConfigMap)
        if whole is None:
            raise SourceChanged(f"ConfigMap {manifest_name(part.listing)} is gone; the source is queried again")
        body = await asyncio.to_thread(unpack, whole.binary_data[WHOLE_KEY], part.listing)
        return await asyncio.to_thread(lambda: apply_part(part, decode_manifest(body, part.listing), digest))

    @property
    def path(self) -> str:
        """The API path of the ConfigMaps."""
        return f"/api/v1/namespaces/{self.namespace}/configmaps"

    def _config_map(self, packed: PackedManifest, charged_to: str) -> dict[str, object]:
        annotations = {
            URI: packed.uri,
            REVISION: packed.revision,
            NAMESPACE: charged_to,
            LISTING: packed.listing,
            SIZE: str(len(packed.body)),
        }
        metadata = {
            "name": manifest_name(packed.digest),
            "labels": {"app.kubernetes.io/part-of": "larder", LABEL: KIND, **(_PART if packed.listing else {})},
            "annotations": {key: value for key, value in annotations.items() if value},
        }
        data = {packed.key: base64.b64encode(packed.body).decode()}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "immutable": True, "binaryData": data}
