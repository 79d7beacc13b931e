"""Manifests, compressed, in immutable ConfigMaps of the release namespace."""

import asyncio
import base64
import hashlib
import zlib
from dataclasses import dataclass, field

from shared.errors import SourceChanged, TooManyFiles
from shared.kube.collection import get_object
from shared.kube.edit import create_if_missing
from shared.kube.objects import Object
from shared.kube.transport import Kube
from shared.manifest import Manifest
from shared.names import manifest_name

_LARGEST_BYTES = 900 * 1024
_LARGEST_MANIFEST_BYTES = 64 * 2**20  # what a crafted ConfigMap could inflate to
_MOST_RECENT_BYTES = 32 * 2**20
_KEY = "manifest.json.z"


class _ConfigMap(Object, frozen=True, kw_only=True):
    """A ConfigMap's binary half, in base64."""

    binary_data: dict[str, str] = {}


def pack(manifest: Manifest) -> tuple[str, bytes]:
    """Return a manifest's digest and its compressed bytes; raises TooManyFiles."""
    body = manifest.encode()
    packed = zlib.compress(body, 9)
    if len(packed) > _LARGEST_BYTES or len(body) > _LARGEST_MANIFEST_BYTES:
        raise TooManyFiles(
            f"the list of {len(manifest.files)} files takes {len(packed)} bytes compressed and {len(body)} not, over "
            f"the {_LARGEST_BYTES} or {_LARGEST_MANIFEST_BYTES} that can be kept; choose fewer files"
        )
    return hashlib.sha256(body).hexdigest(), packed


def unpack(text: str, digest: str) -> bytes:
    """Return the bytes of this digest; raises ValueError, zlib.error."""
    body = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), _LARGEST_MANIFEST_BYTES)
    if hashlib.sha256(body).hexdigest() != digest:
        raise ValueError(f"not the bytes of {digest}")
    return body


@dataclass(frozen=True, slots=True)
class Manifests:
    """Keeps and finds them."""

    kube: Kube
    namespace: str
    _recent: dict[str, bytes] = field(default_factory=dict, init=False)

    async def keep(self, manifest: Manifest) -> str:
        """Store a manifest and return its digest; raises TooManyFiles, KubeError."""
        digest, packed = await asyncio.to_thread(pack, manifest)  # a long list would hold up everything else
        # Its name is its content, so one that is there will do.
        await create_if_missing(self.kube, self._path, self._config_map(manifest, digest, packed))
        return digest

    async def find(self, digest: str) -> bytes:
        """Return the canonical bytes; raises SourceChanged where they are not to be had, KubeError."""
        known = self._recent.get(digest)
        if known is None:
            known = await self._read(digest)
            self._remember(digest, known)
        return known

    def _remember(self, digest: str, body: bytes) -> None:
        """A thousand nodes ask for the same few lists one after the other."""
        self._recent[digest] = body
        while len(self._recent) > 1 and sum(map(len, self._recent.values())) > _MOST_RECENT_BYTES:
            del self._recent[next(iter(self._recent))]

    async def _read(self, digest: str) -> bytes:
        name = manifest_name(digest)
        found = await get_object(self.kube, f"{self._path}/{name}", _ConfigMap)
        if found is None:
            raise SourceChanged(f"ConfigMap {name} with the list of files is gone; the source is asked again")
        try:
            return await asyncio.to_thread(unpack, found.binary_data[_KEY], digest)
        except (KeyError, ValueError, zlib.error) as error:
            raise SourceChanged(
                f"ConfigMap {name} does not have the list of files that it is named after ({type(error).__name__}); "
                "delete it, and the source is asked again"
            ) from error

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps"

    def _config_map(self, manifest: Manifest, digest: str, packed: bytes) -> dict[str, object]:
        metadata = {
            "name": manifest_name(digest),
            "labels": {"app.kubernetes.io/part-of": "larder", "larder.dev/kind": "manifest"},
            "annotations": {"larder.dev/uri": manifest.uri, "larder.dev/revision": manifest.revision},
        }
        data = {_KEY: base64.b64encode(packed).decode()}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "immutable": True, "binaryData": data}
