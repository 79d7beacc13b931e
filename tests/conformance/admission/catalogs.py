"""Fills each implementation of the catalog with the same cluster."""

import base64
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from controller.admission.catalog.memory import MemoryCatalog
from controller.admission.catalog.port import Catalog, CatalogModel, CatalogNode
from controller.admission.catalog.state_catalog import StateCatalog
from controller.admission.injectable_model import InjectableModel
from controller.inferenceservices.users import ServiceUsers
from controller.placement.volume_names import MODEL_ANNOTATION, VOLUME_LABEL, volume_names
from controller.sources.manifests import Manifests
from controller.sources.packed_manifests import pack
from controller.state.cluster_state import ClusterState
from controller.state.dra.claim_users import ResourceClaimUsers
from shared.api.core import ClaimSpec, PersistentVolumeClaim
from shared.api.kinds import MODEL, NODE_GROUP
from shared.api.model_cache import ModelCacheStatus
from shared.kube.transport import Kube
from shared.manifest import File, build_manifest
from shared.names import INJECTED_LABEL, USER_LABEL, cache_id, uses_label
from tests.builders.api_server import Objects
from tests.builders.cluster import (
    base_model,
    cache,
    cluster_model,
    entry,
    entry_status,
    fresh_cluster,
    group,
    meta,
    model_node,
    node,
    pod,
)
from tests.builders.model_caches import cache as model_cache

MANAGED = {"larder.dev/managed": "true"}


class FilledCatalog(Protocol):
    """A catalog, and methods that fill it."""

    @property
    def catalog(self) -> Catalog: ...

    def declare_base_model(self, namespace: str, name: str) -> None: ...

    def declare_cache(self, name: str, files: tuple[str, ...] = ()) -> None: ...

    def declare_model_cache(self, name: str) -> None: ...

    def declare_group(self, name: str, *members: str) -> None: ...

    def create_group_unseen(self, name: str) -> None: ...

    def set_foreign(self, kind: str) -> None: ...

    def fill_up(self, node: str, model: str) -> None: ...

    def create_claim(self, name: str, snapshot: str) -> None: ...

    def run_pod(self, name: str, model: str) -> None: ...

    def run_injected_pod(self, name: str, claim: str) -> None: ...

    def create_model(self, name: str, phase: str) -> None: ...

    def create_storage_class(self, name: str) -> None: ...


@dataclass
class FilledMemory:
    """The in-memory twin."""

    catalog: MemoryCatalog = field(default_factory=MemoryCatalog)

    def declare_base_model(self, namespace: str, name: str) -> None:
        kind, identity = ("BaseModel", f"{namespace}_{name}") if namespace else ("ClusterBaseModel", name)
        self.catalog.base_models.append(CatalogModel(kind, namespace, name, identity, f"hf://org/{name}@main"))

    def declare_cache(self, name: str, files: tuple[str, ...] = ()) -> None:
        declared = CatalogModel("ClusterModelCache", "", name, name, f"hf://org/{name}@main", "r1")
        self.catalog.cluster_caches.append(declared)
        self.catalog.unread[name] = set(files)

    def declare_model_cache(self, name: str) -> None:
        declared = CatalogModel("ModelCache", "team", name, cache_id("team", name), "s3://models/llama", claim=name)
        self.catalog.own_caches.append(declared)

    def declare_group(self, name: str, *members: str) -> None:
        self.catalog.groups[name] = group(name, {"group": name})
        self.catalog.members[name] = [CatalogNode(member, {"group": name}) for member in members]

    def create_group_unseen(self, name: str) -> None:
        self.catalog.unseen_groups.add(name)

    def set_foreign(self, kind: str) -> None:
        self.catalog.foreign.add(kind)

    def fill_up(self, node: str, model: str) -> None:
        self.catalog.full.add((model, node))

    def create_claim(self, name: str, snapshot: str) -> None:
        self.catalog.claims["team", name] = snapshot

    def run_pod(self, name: str, model: str) -> None:
        self.catalog.users.setdefault(model, []).append(f"team/{name}")

    def run_injected_pod(self, name: str, claim: str) -> None:
        self.catalog.users.setdefault(f"team/{claim}", []).append(f"team/{name}")

    def create_model(self, name: str, phase: str) -> None:
        self.catalog.injectable["team", name] = InjectableModel(name, phase, f"model-{name}")

    def create_storage_class(self, name: str) -> None:
        self.catalog.storage_classes.add(name)


@dataclass
class FilledState:
    """The cluster state of a replica, and an API server for live reads."""

    objects: Objects
    kube: Kube
    cluster: ClusterState = field(default_factory=fresh_cluster)
    catalog: StateCatalog = field(init=False)

    def __post_init__(self) -> None:
        users, devices = (
            ServiceUsers(self.kube, self.cluster, enabled=True),
            ResourceClaimUsers(self.kube, enabled=False),
        )
        self.catalog = StateCatalog(self.cluster, self.kube, Manifests(self.kube, "ns"), users, devices)

    def declare_base_model(self, namespace: str, name: str) -> None:
        if namespace:
            self.cluster.base_models.upsert(base_model(namespace, name))
        else:
            self.cluster.cluster_base_models.upsert(cluster_model(name, {}))

    def declare_cache(self, name: str, files: tuple[str, ...] = ()) -> None:
        packed = pack(build_manifest(f"hf://org/{name}@c", "r1", [File(path, 1) for path in files]))
        binary = {"manifest.json.z": base64.b64encode(packed.body).decode()}
        path = f"/api/v1/namespaces/ns/configmaps/manifest-{packed.digest}"
        self.objects.objects[path] = {"metadata": {"name": "x"}, "binaryData": binary}
        declared = cache(name, "g")
        status = msgspec.structs.replace(declared.status, manifest_digest=packed.digest)
        self.cluster.cluster_model_caches.upsert(msgspec.structs.replace(declared, status=status))

    def declare_model_cache(self, name: str) -> None:
        declared = model_cache(status=ModelCacheStatus(claim=name))
        metadata = msgspec.structs.replace(declared.metadata, name=name)
        self.cluster.model_caches.upsert(msgspec.structs.replace(declared, metadata=metadata))

    def declare_group(self, name: str, *members: str) -> None:
        self.cluster.groups.upsert(group(name, {"group": name}))
        for member in members:
            self.cluster.nodes.upsert(node(member, {"group": name}))

    def create_group_unseen(self, name: str) -> None:
        self.objects.objects[f"{NODE_GROUP.path}/{name}"] = {"metadata": {"name": name}}

    def set_foreign(self, kind: str) -> None:
        self.cluster.ownership.set_foreign(kind, foreign=True)

    def fill_up(self, node: str, model: str) -> None:
        failed = entry_status(model, "Failed", reason="InsufficientStorage")
        self.cluster.model_nodes.upsert(model_node(node, entry(model), reported=[failed]))

    def create_claim(self, name: str, snapshot: str) -> None:
        marks = {"labels": {VOLUME_LABEL: "true"}, "annotations": {MODEL_ANNOTATION: snapshot}}
        spec = ClaimSpec(volume_name=volume_names("team", name)[0])
        claim = PersistentVolumeClaim(metadata=meta(name, namespace="team", **marks), spec=spec)
        self.cluster.volumes.claims.upsert(claim)

    def run_pod(self, name: str, model: str) -> None:
        labels = {USER_LABEL: "true", uses_label(model): "true"}
        self.cluster.model_pods.upsert(pod(name, "n", [(model, "r1")], namespace="team", labels=labels))

    def run_injected_pod(self, name: str, claim: str) -> None:
        labels = {INJECTED_LABEL: "true"}
        self.cluster.injected_pods.upsert(pod(name, "n", claims=[claim], namespace="team", labels=labels))

    def create_model(self, name: str, phase: str) -> None:
        spec = {"source": {"oci": {"ref": "registry/model"}}, "storage": {"storageClass": "c", "size": "1Gi"}}
        status = {"phase": phase, "pvcName": f"model-{name}"}
        self.objects.objects[f"{MODEL.path_in('team')}/{name}"] = {
            "metadata": {"name": name},
            "spec": spec,
            "status": status,
        }

    def create_storage_class(self, name: str) -> None:
        self.objects.objects[f"/apis/storage.k8s.io/v1/storageclasses/{name}"] = {"metadata": {"name": name}}
