"""Reads the stored manifests and their references: from caches first, live before anything is deleted."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from controller.manifest_gc.decide import References, StoredManifest
from controller.sources.manifests import KIND, LABEL, LISTING, NAMESPACE, SIZE, Manifests
from controller.state.cluster_state import ClusterState
from controller.state.kinds.ownership import RECORD_ANNOTATION
from shared.api.kinds import BASE_MODEL, CLUSTER_BASE_MODEL, CLUSTER_MODEL_CACHE, MODEL_CACHE, MODEL_NODE
from shared.api.meta import ApiStruct
from shared.decode_errors import DECODE_ERRORS
from shared.kube.collection import decode, list_metadata, pages
from shared.kube.errors import NotFound
from shared.kube.objects import Object
from shared.kube.transport import Kube
from shared.names import manifest_digest, namespace_of

_MODELS = (BASE_MODEL, CLUSTER_BASE_MODEL, CLUSTER_MODEL_CACHE, MODEL_CACHE)
_NODES_PER_PAGE = 10  # each may take a megabyte
_MAX_SIZE_DIGITS = 12


class _Status(ApiStruct, frozen=True, kw_only=True):
    manifest_digest: str = ""


class _Model(Object, frozen=True, kw_only=True):
    status: _Status = _Status()


class _Entry(ApiStruct, frozen=True, kw_only=True):
    manifest: str = ""


class _Spec(ApiStruct, frozen=True, kw_only=True):
    entries: list[_Entry] = []


class _Node(Object, frozen=True, kw_only=True):
    spec: _Spec = _Spec()


@dataclass(frozen=True, slots=True)
class ManifestObserver:
    """Reads for the collector; methods that read the API server raise KubeError, and then nothing is known."""

    kube: Kube
    cluster: ClusterState
    manifests: Manifests

    async def stored_manifests(self) -> list[StoredManifest]:
        """Return the manifests that Larder stores; other names, and ConfigMaps without the label, belong to others."""
        found = await list_metadata(self.kube, self.manifests.path, {"labelSelector": f"{LABEL}={KIND}"})
        return [manifest for item in found if (manifest := _stored_manifest(item)) is not None]

    def known_references(self) -> References:
        """Return the references in the caches, which do not suffice to delete a manifest."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for demand in self.cluster.models.demands.values():
            if demand.resolution is not None:
                found[demand.resolution.manifest].add(demand.namespace)
        for cache in self.cluster.model_caches:
            if cache.status.manifest_digest:
                found[cache.status.manifest_digest].add(cache.metadata.namespace)
        for model_node in self.cluster.model_nodes:
            for entry in model_node.spec.entries:
                found[entry.manifest].add(namespace_of(entry.id))
        return found

    async def live_references(self) -> frozenset[str]:
        """Return every digest that an object refers to now, including objects of other products' kinds."""
        found = set[str]()
        for definition in _MODELS:
            try:
                async for page in pages(self.kube, definition.path):
                    found.update(digest for raw in page.items for digest in _of_model(decode(raw, _Model)))
            except NotFound:
                continue  # the kind has no definition, so there are no objects
        async for page in pages(self.kube, MODEL_NODE.path, size=_NODES_PER_PAGE):
            found.update(entry.manifest for raw in page.items for entry in decode(raw, _Node).spec.entries)
        return frozenset(found)


def _stored_manifest(item: Object) -> StoredManifest | None:
    meta = item.metadata
    digest = manifest_digest(meta.name)
    if not digest:
        return None
    annotations: Mapping[str, str] = meta.annotations
    size = annotations.get(SIZE, "")
    return StoredManifest(
        digest=digest,
        uid=meta.uid,
        version=meta.resource_version,
        namespace=annotations.get(NAMESPACE, ""),
        listing=annotations.get(LISTING, ""),
        size_bytes=int(size) if size.isdecimal() and size.isascii() and len(size) <= _MAX_SIZE_DIGITS else 0,
    )


def _of_model(model: _Model) -> Iterator[str]:
    yield model.status.manifest_digest
    record = model.metadata.annotations.get(RECORD_ANNOTATION, "")
    try:
        yield msgspec.json.decode(record, type=_Status).manifest_digest if record else ""
    except DECODE_ERRORS:
        return  # somebody tampered with it, so it is ignored
