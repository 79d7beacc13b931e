"""Admission's look-ups, answered from the world."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

import structlog

from controller.admission.catalog import CatalogModel, CatalogNode, PathKind, kind_of_path
from controller.claims.verdict import BLOCKING, READING
from controller.keys import ModelKey
from controller.manifests import Manifests
from controller.placement.demand import Demand, difference
from controller.services.users import ServiceUsers
from controller.world import World
from shared.api.base_model import BaseModel
from shared.api.core import PODS, Pod
from shared.api.kinds import NODE_GROUP
from shared.api.meta import StockStatus, condition_of
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.errors import LarderError, Unreachable
from shared.kube.collection import list_objects
from shared.kube.errors import KubeError
from shared.kube.objects import Object
from shared.kube.transport import Kube
from shared.manifest import decode_manifest
from shared.names import uses_label

T = TypeVar("T", bound=Object)
_log = structlog.get_logger()
_CACHE = "ClusterModelCache"
_MOST_LISTS = 64
_LONGEST_READ_S = 2.0  # the API server waits 5 s for the webhook
_TERMINAL = ("Succeeded", "Failed")


@dataclass(slots=True)
class WorldCatalog:
    """The port of admission over what the reflectors of this replica hold."""

    world: World
    kube: Kube
    manifests: Manifests
    services: ServiceUsers
    _paths: dict[str, frozenset[str]] = field(default_factory=dict, init=False)
    _reading: dict[str, asyncio.Task[None]] = field(default_factory=dict, init=False)

    def base_model(self, namespace: str, name: str, kind: str = "") -> CatalogModel | None:
        """Return the namespace's BaseModel of that name, else the ClusterBaseModel, else None; of `kind`, if given."""
        both = ModelKey("BaseModel", namespace, name), ModelKey("ClusterBaseModel", "", name)
        keys = [key for key in both if kind in ("", key.kind)]
        for key in keys:
            if key in self.world.others:
                return _elsewhere(key)
            if (found := self._model(key)) is not None:
                return found
        return next((_elsewhere(key) for key in keys if self.world.ownership.is_foreign(key.kind)), None)

    def caches(self) -> Iterable[CatalogModel]:
        """Return every ClusterModelCache, those that are being deleted included."""
        found = (self._model(key) for key in list(self.world.demands) if key.kind == _CACHE)
        return [model for model in found if model is not None]

    def group(self, name: str) -> ModelCacheNodeGroup | None:
        """Return a node group."""
        return self.world.group(name)

    def nodes_of_group(self, name: str) -> Iterable[CatalogNode]:
        """Return the members of a node group."""
        return [CatalogNode(n.metadata.name, n.metadata.labels) for n in self.world.members_of(name)]

    def kind_of_path(self, model: CatalogModel, path: str) -> PathKind | None:
        """Return what the serving revision has at a path; None until its list of files has been read."""
        known = self._paths.get(self._digest_of(model))
        return None if known is None else kind_of_path(known, path)

    async def read_files(self, model: CatalogModel) -> None:
        """Wait, two seconds at most, until the list of files of the serving revision is known, or cannot be read."""
        digest = self._digest_of(model)
        if digest and digest not in self._paths:
            await asyncio.wait([self._reading_of(digest)], timeout=_LONGEST_READ_S)

    def manages(self, kind: str, annotations: Mapping[str, str]) -> bool:
        """Return whether an object of a kind is Larder's to look after."""
        return self.world.ownership.manages(kind, annotations)

    async def group_names(self) -> Sequence[str]:
        """Return the names of the node groups that exist now, read live."""
        found = (o.metadata for o in await self._list(NODE_GROUP.path, Object, {}))
        return sorted(meta.name for meta in found if self.manages(NODE_GROUP.kind, meta.annotations))

    async def users_of(self, identity: str, namespace: str) -> Sequence[str]:
        """Return the non-terminal pods that use any revision of a model, of its namespace where it has one, live."""
        path = f"/api/v1/namespaces/{namespace}/pods" if namespace else PODS
        pods = await self._list(path, Pod, {"labelSelector": uses_label(identity)})
        live = (p.metadata for p in pods if p.status.phase not in _TERMINAL)
        return sorted(f"{meta.namespace}/{meta.name}" for meta in live)

    async def services_of(self, kind: str, namespace: str, name: str) -> Sequence[str]:
        """Return the InferenceServices, ours and KServe's, that name a model, as `namespace/name`, listed live."""
        try:
            return await self.services.of(ModelKey(kind, namespace, name))
        except KubeError as error:
            raise Unreachable(f"the Kubernetes API does not list InferenceServices: {error}; try again") from error

    async def _list(self, path: str, kind: type[T], query: dict[str, str]) -> list[T]:
        try:
            return await list_objects(self.kube, path, kind, query)
        except KubeError as error:
            raise Unreachable(f"the Kubernetes API does not answer a list of {path}: {error}; try again") from error

    def _model(self, key: ModelKey) -> CatalogModel | None:
        demand, declared = self.world.demands.get(key), self.world.declared(key)
        if demand is None or declared is None:
            return None
        reason, message = self._trouble(demand, declared.status)
        if isinstance(declared, BaseModel):
            written, mount_path = declared.spec.storage.storage_uri, declared.spec.storage.path
        else:
            written, mount_path = declared.spec.storage_uri, ""
        return CatalogModel(
            kind=key.kind,
            namespace=key.namespace,
            name=key.name,
            id=demand.id,
            uri=demand.uri or written,
            serving_revision=demand.serving,
            mount_path=mount_path,
            groups=demand.groups,
            disabled=demand.disabled,
            deleting=demand.deleting,
            reason=reason,
            message=message,
        )

    def _trouble(self, demand: Demand, status: StockStatus) -> tuple[str, str]:
        """Return why pods cannot get the model at all; one that serves, or is merely on its way, has no trouble."""
        if demand.invalid:
            return "InvalidURI", demand.invalid
        if demand.refused and not demand.serving:
            return "SourceNotAllowed", demand.refused
        other = self.world.conflict(demand)
        if other is not None:
            words = difference(demand, other)
            return "NameConflict", f"{other.kind} {other.name} is older and has the same model id with {words}"
        if demand.on_claim:
            return _claim_trouble(demand, status)
        resolved = condition_of(status.conditions, "Resolved")
        if not demand.serving and resolved is not None and resolved.message:
            return resolved.reason, resolved.message
        return "", ""

    def _digest_of(self, model: CatalogModel) -> str:
        """Return the digest of the serving revision's manifest, "" where it is not known.

        While a newer revision is on its way to the nodes, they still list the one that serves.
        """
        revision = model.serving_revision
        resolved = (d.resolution for d in self.world.same_id(model.id) if d.uri == model.uri)
        of_object = (r.manifest for r in resolved if r is not None and r.revision == revision)
        entries = (e for node in self.world.model_nodes for e in node.spec.entries)
        on_nodes = (e.manifest for e in entries if e.key == (model.id, revision) and e.uri == model.uri)
        return next((digest for digest in chain(of_object, on_nodes) if digest), "")

    def _reading_of(self, digest: str) -> asyncio.Task[None]:
        """Return the one task that reads a list, for all who wait for it."""
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
        self._paths[digest] = frozenset(f.path for f in manifest.files)
        if len(self._paths) > _MOST_LISTS:
            del self._paths[next(iter(self._paths))]


def _claim_trouble(demand: Demand, status: StockStatus) -> tuple[str, str]:
    """Return why the claim cannot be mounted, or what would stand in the model's place; nothing for other troubles."""
    ready = condition_of(status.conditions, "Ready")
    if ready is None or status.source != demand.uri:
        return READING, f"the controller has not looked at {demand.uri} yet"
    return (ready.reason, ready.message) if ready.reason in BLOCKING else ("", "")


def _elsewhere(key: ModelKey) -> CatalogModel:
    """Return a model of another product, of which nothing but the name is looked at."""
    return CatalogModel(key.kind, key.namespace, key.name, id="", uri="", managed=False)
