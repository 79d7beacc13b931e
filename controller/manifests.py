"""Manifests, compressed, in immutable ConfigMaps of the release namespace."""

import base64
import zlib
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from shared.errors import TooManyFiles
from shared.kube.errors import Conflict
from shared.kube.transport import Kube
from shared.manifest import Manifest
from shared.names import manifest_name

_LARGEST_BYTES = 900 * 1024
_LARGEST_MANIFEST_BYTES = 64 * 2**20  # what a crafted ConfigMap could inflate to
_KEY = "manifest.json.z"


@dataclass(frozen=True, slots=True)
class Manifests:
    """Keeps and finds them."""

    kube: Kube
    namespace: str

    async def keep(self, manifest: Manifest) -> str:
        """Store a manifest and return its digest; raises TooManyFiles, KubeError."""
        body = manifest.encode()
        packed = zlib.compress(body, 9)
        if len(packed) > _LARGEST_BYTES:
            raise TooManyFiles(
                f"the list of {len(manifest.files)} files takes {len(packed)} bytes, over the {_LARGEST_BYTES} that "
                "fit a ConfigMap; choose fewer files"
            )
        with suppress(Conflict):  # its name is its content
            await self.kube.request("POST", self._path, body=self._config_map(manifest, packed))
        return manifest.digest

    async def find(self, digest: str) -> bytes:
        """Return the canonical bytes; raises NotFound, KubeError."""
        found = await self.kube.request("GET", f"{self._path}/{manifest_name(digest)}")
        packed = base64.b64decode(msgspec.json.decode(found)["binaryData"][_KEY])
        return zlib.decompressobj().decompress(packed, _LARGEST_MANIFEST_BYTES)

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps"

    def _config_map(self, manifest: Manifest, packed: bytes) -> dict[str, object]:
        metadata = {
            "name": manifest_name(manifest.digest),
            "labels": {"app.kubernetes.io/part-of": "larder", "larder.dev/kind": "manifest"},
            "annotations": {"larder.dev/uri": manifest.uri, "larder.dev/revision": manifest.revision},
        }
        data = {_KEY: base64.b64encode(packed).decode()}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "immutable": True, "binaryData": data}
