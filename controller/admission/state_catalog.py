"""The admission catalog, answered from the cluster state."""

import asyncio
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Protocol, TypeVar

import structlog

from controller.admission.catalog import CatalogModel, CatalogNode, PathKind, kind_of_path
from controller.admission.injectable_model import InjectableModel
from controller.admission.model_injector.of_model import injectable_model
from controller.claims.result import READING, WAITS, is_read_later, takes_pods
from controller.placement.claim_place import place_of
from controller.placement.demand import Demand
from controller.placement.demand_of_kind import model_cache_demand
from controller.placement.name_conflicts import difference
from controller.placement.volume_names import (
    MODEL_ANNOTATION,
    SnapshotVolume,
    has_plain_name,
    hashed_name,
    is_our_claim,
    plain_name,
)
from controller.sources.buckets import Buckets, Rate
from controller.sources.manifests import Manifests
from controller.state.changes import TERMINAL
from controller.state.cluster_state import ClusterState
from controller.state.device_users import DeviceUsers
from controller.state.keys import ModelKey
from controller.state.live_reader import is_object_name
from shared.api.base_model import BaseModel
from shared.api.core import PODS, Pod
from shared.api.kinds import MODEL, MODEL_CACHE, NODE_GROUP
from shared.api.meta import ModelStatus, condition_of
from shared.api.model import Model
from shared.api.model_cache import ModelCache
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.api.model_node import Phase
from shared.archives import find_archives
from shared.errors import InsufficientStorage, LarderError, Unreachable
from shared.kube.collection import get_object, list_objects
from shared.kube.errors import KubeError
from shared.kube.objects import Key, Object
from shared.kube.transport import Kube
from shared.manifest import decode_manifest
from shared.names import uses_label

T = TypeVar("T", bound=Object)
_log = structlog.get_logger()
_CACHE = "ClusterModelCache"
_STORAGE_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
_MOST_LISTS = 64
_FEW = 100
_MOST_GROUP_READS = 16
_LONGEST_READ_S = 2.0  # the API server waits 5 s for the webhook
_LONGEST_READS_S = 5.0  # of Models; it waits 10 s for their webhook
_MODEL_READS = Rate(per_s=100, burst=1000)  # of a namespace, whose every pod may name 64 Models


class ServiceLister(Protocol):
    """Which InferenceServices use a model."""

    async def of(self, key: ModelKey, kind_of: Callable[[Demand, str], PathKind | None]) -> Sequence[str]:
        """Return them as `namespace/name`, read live. Raises KubeError.

        `kind_of` returns what a path is in a cache.
        """


@dataclass(slots=True)
class StateCatalog:
    """Implements the catalog port on the informers' caches of this replica."""

    cluster: ClusterState
    kube: Kube
    manifests: Manifests
    services: ServiceLister
    devices: DeviceUsers
    reads: Buckets = field(default_factory=lambda: Buckets(_MODEL_READS, time.monotonic))
    _paths: dict[str, frozenset[str]] = field(default_factory=dict, init=False)
    _known: dict[Key, tuple[ModelCache, CatalogModel]] = field(default_factory=dict, init=False)
    _reading: dict[str, asyncio.Task[None]] = field(default_factory=dict, init=False)

    def base_model(self, namespace: str, name: str, kind: str = "") -> CatalogModel | None:
        """Return the namespace's BaseModel, else the ClusterBaseModel, else None; only of `kind`, if given."""
        both = ModelKey("BaseModel", namespace, name), ModelKey("ClusterBaseModel", "", name)
        keys = [key for key in both if kind in ("", key.kind)]
        for key in keys:
            if key in self.cluster.unmanaged:
                return _elsewhere(key)
            if (found := self._model(key)) is not None:
                return found
        return next((_elsewhere(key) for key in keys if self.cluster.ownership.is_foreign(key.kind)), None)

    def names(self, namespace: str) -> Iterable[str]:
        """Return the names of the models that a namespace sees."""
        own = {cache.metadata.name for cache in self.cluster.model_caches_in(namespace)}
        return own | {key.name for key in self.cluster.demands if key.namespace in ("", namespace)}

    def caches(self) -> Iterable[CatalogModel]:
        """Return every ClusterModelCache, including those being deleted."""
        found = (self._model(key) for key in list(self.cluster.demands) if key.kind == _CACHE)
        return [model for model in found if model is not None]

    def model_caches(self, namespace: str) -> Iterable[CatalogModel]:
        """Return the ModelCaches of a namespace, including those being deleted."""
        if len(self._known) > 2 * len(self.cluster.model_caches) + _FEW:
            self._known.clear()  # most are of caches that are gone
        return [self._known_model_cache(cache) for cache in self.cluster.model_caches_in(namespace)]

    async def injectable_models(self, namespace: str, names: Sequence[str]) -> Mapping[str, InjectableModel]:
        """Return the Models of a namespace by name, read live up to the first that pods cannot mount."""
        found = dict[str, InjectableModel]()
        try:
            async with asyncio.timeout(_LONGEST_READS_S):
                for name in names:
                    self._count_read(namespace)
                    model = await self._read_model(namespace, name)
                    if model is None:
                        break
                    found[name] = injectable_model(model)
                    if not found[name].usable:
                        break
        except TimeoutError as error:
            message = f"the Kubernetes API did not return the Models within {_LONGEST_READS_S:.0f} s"
            raise Unreachable(message) from error
        return found

    def group(self, name: str) -> ModelCacheNodeGroup | None:
        """Return a node group, or None."""
        return self.cluster.group(name)

    def nodes_of_group(self, name: str) -> Iterable[CatalogNode]:
        """Return the members of a node group."""
        return [CatalogNode(n.metadata.name, n.metadata.labels) for n in self.cluster.membership.members_of(name)]

    def lacks_space(self, model: CatalogModel, node: str) -> bool:
        """Return whether a node reports that the serving revision does not fit on it."""
        found = self.cluster.model_node(node)
        entries = found.status.entries if found is not None else ()
        key = (model.id, model.serving_revision)
        entry_status = next((e for e in entries if e.key == key), None)
        return entry_status is not None and (entry_status.phase, entry_status.reason) == (
            Phase.FAILED,
            InsufficientStorage.__name__,
        )

    def claim_name(self, namespace: str, wanted: SnapshotVolume, claim_revision: str) -> str:
        """Return the name of the claim through which a namespace mounts a snapshot."""
        found = self.cluster.volumes.claims.get(Key(namespace, plain_name(wanted)))
        free = found is None or (
            is_our_claim(found)
            and found.metadata.deletion_timestamp is None
            and found.metadata.annotations.get(MODEL_ANNOTATION) == str(wanted)
        )
        return plain_name(wanted) if free and has_plain_name(wanted, claim_revision) else hashed_name(wanted)

    def kind_of_path(self, model: CatalogModel, path: str) -> PathKind | None:
        """Return what a path is in the serving revision; None until its list of files has been read.

        Contents of archives are in no list, so they count as absent.
        """
        known = self._paths.get(self._digest_of(model))
        return None if known is None else kind_of_path(known, path)

    async def read_files(self, model: CatalogModel) -> None:
        """Wait up to two seconds until the list of files of the serving revision is known, or cannot be read."""
        digest = self._digest_of(model)
        if digest and digest not in self._paths:
            await asyncio.wait([self._reading_of(digest)], timeout=_LONGEST_READ_S)

    def manages(self, kind: str, annotations: Mapping[str, str]) -> bool:
        """Return whether Larder manages an object of this kind with these annotations."""
        return self.cluster.ownership.manages(kind, annotations)

    async def group_names(self, names: Collection[str]) -> Sequence[str]:
        """Return the names of the node groups; those of `names` missing from the cache are read live, one by one."""
        known = {group.metadata.name for group in self.cluster.groups}
        missing = [name for name in names if name not in known and is_object_name(name)][:_MOST_GROUP_READS]
        return sorted(known | {name for name in missing if await self._has_group(name)})

    def users_of(self, identity: str, namespace: str) -> Sequence[str]:
        """Return the non-terminal pods that use any revision of a model, from the cache; its finalizer checks live."""
        return self.cluster.pod_users.pods_of(identity, namespace)

    def users_of_claim(self, namespace: str, claim: str) -> Sequence[str]:
        """Return the non-terminal pods with a model that mount a claim, from the cache."""
        labelled = chain(self.cluster.users, self.cluster.injected_pods)
        pods = (pod for pod in labelled if pod.metadata.namespace == namespace)
        using = (pod.metadata for pod in pods if claim in pod.spec.claims and pod.status.phase not in TERMINAL)
        return sorted({f"{meta.namespace}/{meta.name}" for meta in using})

    async def has_storage_class(self, name: str) -> bool:
        """Return whether there is a StorageClass of that name; True if the API server does not say."""
        try:
            async with asyncio.timeout(_LONGEST_READ_S):
                return await get_object(self.kube, f"{_STORAGE_CLASSES}/{name}", Object) is not None
        except (KubeError, TimeoutError) as error:
            _log.warning("storage_class_unreadable", name=name, error=str(error))
            return True

    async def live_users_of(self, identity: str, namespace: str) -> Sequence[str]:
        """Return the pods that use any revision of a model, live, in its namespace if it has one."""
        path = f"/api/v1/namespaces/{namespace}/pods" if namespace else PODS
        pods = await self._list(path, Pod, {"labelSelector": uses_label(identity)})
        using = {
            f"{p.metadata.namespace}/{p.metadata.name}" for p in pods if self.cluster.pod_users.is_user(p, identity)
        }
        return sorted(using | await self._holders_of(identity, namespace))

    async def _holders_of(self, identity: str, namespace: str) -> set[str]:
        """Return the pods that hold any revision of a model as a device."""
        entries = {e.key for n in self.cluster.model_nodes for e in n.spec.entries if e.id == identity}
        try:
            return set(await self.devices.of_model(entries, namespace))
        except KubeError as error:
            raise Unreachable(f"cannot list ResourceClaims from the Kubernetes API: {error}; try again") from error

    async def services_of(self, kind: str, namespace: str, name: str) -> Sequence[str]:
        """Return the InferenceServices, including KServe's, that name a model, as `namespace/name`, listed live."""
        key = ModelKey(kind, namespace, name)
        if kind in (_CACHE, MODEL_CACHE.kind) and (cache := self._model(key)) is not None:
            await self.read_files(cache)
        try:
            return await self.services.of(key, self._kind_of_part)
        except KubeError as error:
            raise Unreachable(f"cannot list InferenceServices: {error}; try again") from error

    async def _has_group(self, name: str) -> bool:
        path = f"{NODE_GROUP.path}/{name}"
        try:
            found = await get_object(self.kube, path, Object)
        except KubeError as error:
            raise Unreachable(f"cannot read {path} from the Kubernetes API: {error}; try again") from error
        return found is not None and self.manages(NODE_GROUP.kind, found.metadata.annotations)

    def _count_read(self, namespace: str) -> None:
        """Raise Unreachable if pods of a namespace have had too many Models read: others need the API server, too."""
        if wait_s := self.reads.draw(namespace):
            raise Unreachable(
                f"the pods of namespace {namespace} name more Models than are read for one namespace, "
                f"{_MODEL_READS.per_s:.0f} per second; try again in {math.ceil(wait_s)} s"
            )

    async def _read_model(self, namespace: str, name: str) -> Model | None:
        if not is_object_name(name):
            return None
        path = f"{MODEL.path_in(namespace)}/{name}"
        try:
            return await get_object(self.kube, path, Model)
        except KubeError as error:
            raise Unreachable(f"cannot read {path} from the Kubernetes API: {error}; try again") from error

    def _kind_of_part(self, cache: Demand, path: str) -> PathKind | None:
        found = self._model(ModelKey(cache.kind, cache.namespace, cache.name))
        return None if found is None else self.kind_of_path(found, path)

    async def _list(self, path: str, kind: type[T], query: dict[str, str]) -> list[T]:
        try:
            return await list_objects(self.kube, path, kind, query)
        except KubeError as error:
            raise Unreachable(f"cannot list {path} from the Kubernetes API: {error}; try again") from error

    def _known_model_cache(self, cache: ModelCache) -> CatalogModel:
        """Return a ModelCache as admission sees it, made once for each change: a namespace may have thousands."""
        before, known = self._known.get(cache.key, (None, None))
        if known is None or before is not cache:
            known = self._model_cache(cache)
            self._known[cache.key] = cache, known
        return known

    def _model_cache(self, cache: ModelCache) -> CatalogModel:
        demand, status = model_cache_demand(cache, self.cluster.allowed, self.cluster.files), cache.status
        ready = condition_of(status.conditions, "Ready")
        reason, message = ("Pending", "the controller has not looked at it yet") if ready is None else ("", "")
        if ready is not None and ready.status != "True":
            reason, message = ready.reason, ready.message
        return CatalogModel(
            kind=demand.kind,
            namespace=demand.namespace,
            name=demand.name,
            id=demand.id,
            uri=demand.uri or cache.spec.storage_uri,
            serving_revision=demand.serving,
            deleting=demand.deleting,
            reason=reason,
            message=message,
            claim=status.claim,
        )

    def _model(self, key: ModelKey) -> CatalogModel | None:
        if key.kind == MODEL_CACHE.kind:
            cache = self.cluster.model_caches.get(Key(key.namespace, key.name))
            return self._model_cache(cache) if cache is not None else None
        demand, declared = self.cluster.demands.get(key), self.cluster.declared(key)
        if demand is None or declared is None:
            return None
        reason, message = self._unusable_reason(demand, declared.status)
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
            claim_revision=demand.claim_revision,
            mount_path=mount_path,
            groups=demand.groups,
            node_selector=demand.node_selector,
            node_affinity=demand.node_affinity,
            disabled=demand.disabled,
            deleting=demand.deleting,
            reason=reason,
            message=message,
        )

    def _unusable_reason(self, demand: Demand, status: ModelStatus) -> tuple[str, str]:
        """Return why pods cannot get the model at all; a model that serves, or is still on its way, has no problem."""
        if demand.invalid:
            return "InvalidURI", demand.invalid
        if demand.refused and not demand.serving:
            return "SourceNotAllowed", demand.refused
        other = self.cluster.conflict(demand)
        if other is not None:
            message = f"{other.kind} {other.name} is older and has the same model id with {difference(demand, other)}"
            return "NameConflict", message
        if demand.on_claim:
            return self._unusable_claim_reason(demand, status)
        resolved = condition_of(status.conditions, "Resolved")
        if not demand.serving and resolved is not None and resolved.message:
            return resolved.reason, resolved.message
        return "", ""

    def _unusable_claim_reason(self, demand: Demand, status: ModelStatus) -> tuple[str, str]:
        """Return why pods cannot mount the claim; if a pod must bind it first, one may pass and the others wait.

        Pods that arrive at the same moment may pass together: the replica learns of the first a moment later.
        """
        ready = condition_of(status.conditions, "Ready")
        if ready is None or status.source != demand.uri:
            return READING, f"the controller has not checked {demand.uri} yet"
        if not takes_pods(ready):
            return ready.reason, ready.message
        if ready.reason == WAITS and is_read_later(status.conditions):
            place = place_of(demand.uri, demand.namespace)
            if first := self.cluster.pod_users.first_user_of(demand.id, place.namespace):
                message = (
                    f"pod {first} binds PVC {place.claim}; others are admitted once a Job has read {place.sub_path}"
                )
                return WAITS, message
        return "", ""

    def _digest_of(self, model: CatalogModel) -> str:
        """Return the digest of the serving revision's manifest, or an empty string if it is unknown.

        While a newer revision is rolling out, the nodes still list the serving one.
        """
        if model.kind == MODEL_CACHE.kind:
            cache = self.cluster.model_caches.get(Key(model.namespace, model.name))
            return cache.status.manifest_digest if cache is not None and model.serving_revision else ""
        revision = model.serving_revision
        resolved = (d.resolution for d in self.cluster.same_id(model.id) if (d.id, d.uri) == (model.id, model.uri))
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
        if len(self._paths) > _MOST_LISTS:
            del self._paths[next(iter(self._paths))]


def _elsewhere(key: ModelKey) -> CatalogModel:
    """Return a placeholder for another product's model; only its name is used."""
    return CatalogModel(key.kind, key.namespace, key.name, id="", uri="", managed=False)
