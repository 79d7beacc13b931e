"""The files of the revisions that models serve, read when a review first needs them."""

import asyncio
from dataclasses import dataclass, field
from itertools import chain

import structlog

from controller.admission.catalog.port import CatalogModel, PathKind, kind_of_path
from controller.sources.manifests import Manifests
from controller.state.cluster_state import ClusterState
from shared.api.kinds import MODEL_CACHE
from shared.archives import find_archives
from shared.errors import LarderError
from shared.kube.errors import KubeError
from shared.kube.objects import Key
from shared.manifest import decode_manifest

_MAX_LISTS = 64
_READ_TIMEOUT_S = 2.0  # the API server waits 5 s for the webhook
_log = structlog.get_logger()


@dataclass(slots=True)
class ServingFiles:
    """Lists of files by the digest of their manifest; a bounded number is kept."""

    cluster: ClusterState
    manifests: Manifests
    _paths: dict[str, frozenset[str]] = field(default_factory=dict, init=False)
    _reading: dict[str, asyncio.Task[None]] = field(default_factory=dict, init=False)

    def kind_of_path(self, model: CatalogModel, path: str) -> PathKind | None:
        """Return what a path is in the serving revision; None until its list of files has been read.

        Contents of archives are in no list, so they count as absent.
        """
        known = self._paths.get(self._digest_of(model))
        return None if known is None else kind_of_path(known, path)

    async def read(self, model: CatalogModel) -> None:
        """Wait up to two seconds until the list of files of the serving revision is known, or cannot be read."""
        digest = self._digest_of(model)
        if digest and digest not in self._paths:
            await asyncio.wait([self._reading_of(digest)], timeout=_READ_TIMEOUT_S)

    def _digest_of(self, model: CatalogModel) -> str:
        """Return the digest of the serving revision's manifest, or an empty string if it is unknown.

        While a newer revision is rolling out, the nodes still list the serving one.
        """
        if model.kind == MODEL_CACHE.kind:
            cache = self.cluster.model_caches.get(Key(model.namespace, model.name))
            return cache.status.manifest_digest if cache is not None and model.serving_revision else ""
        revision = model.serving_revision
        resolved = (
            d.resolution for d in self.cluster.models.same_id(model.id) if (d.id, d.uri) == (model.id, model.uri)
        )
        of_object = (r.manifest for r in resolved if r is not None and r.revision == revision)
        entries = (e for node in self.cluster.model_nodes for e in node.spec.entries)
        on_nodes = (e.manifest for e in entries if e.key == (model.id, revision) and e.uri == model.uri)
        return next((digest for digest in chain(of_object, on_nodes) if digest), "")

    def _reading_of(self, digest: str) -> asyncio.Task[None]:
        """Return the single task that reads a list, shared by all waiters."""
        task = self._reading.get(digest)
        if task is None:
            task = self._reading[digest] = asyncio.create_task(self._read(digest))
            task.add_done_callback(lambda _: self._reading.pop(digest, None))
        return task

    async def _read(self, digest: str) -> None:
        try:
            manifest = decode_manifest(await self.manifests.find(digest), digest)
        except (KubeError, LarderError, ValueError) as error:
            _log.warning("manifest_unreadable", digest=digest, error=str(error))
            return
        archives = {f.path for f in find_archives(manifest.files)}
        self._paths[digest] = frozenset(f.path for f in manifest.files if f.path not in archives)
        if len(self._paths) > _MAX_LISTS:
            del self._paths[next(iter(self._paths))]
