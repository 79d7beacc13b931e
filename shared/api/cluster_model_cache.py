"""ClusterModelCache (`serving.kserve.io/v1alpha1`): a model kept on every node of a group."""

from typing import Annotated, Literal

from msgspec import Meta

from shared.api.meta import (
    AllowPatterns,
    ApiStruct,
    DuplicateWeights,
    IgnorePatterns,
    ModelStatus,
    Name,
    Quantity,
    RawObject,
    StorageUri,
    immutable_source,
)
from shared.kube.objects import Object

GROUP = "serving.kserve.io"
VERSION = "v1alpha1"


class ClusterModelCacheSpec(ApiStruct, frozen=True, kw_only=True):
    """The desired state of a cache: the model, and the node groups that store it."""

    storage_uri: Annotated[StorageUri, immutable_source("ClusterModelCache")]
    model_size: Annotated[
        Quantity | None,
        Meta(
            description="Expected size of the model in bytes. Until the source reports the real size, admission "
            "warns if this exceeds the limit of a group. If the real size is larger, the condition "
            "`LargerThanDeclared` says so. Nodes always reserve the real size, and reserve nothing before it is known."
        ),
    ] = None
    node_group: Annotated[
        str, Meta(max_length=253, description="Name of the ModelCacheNodeGroup whose nodes store the model.")
    ] = ""
    node_groups: Annotated[
        list[Annotated[str, Meta(max_length=253)]],
        Meta(
            max_length=100,
            extra_json_schema={"x-kubernetes-list-type": "atomic"},
            description="Names of further ModelCacheNodeGroups whose nodes store the model.",
        ),
    ] = []
    credentials_secret: Annotated[
        str,
        Meta(
            max_length=253,
            description="Name of a Secret in Larder's own namespace with the credentials for the source. The "
            "Secret must have the label `larder.dev/credentials`.",
        ),
    ] = ""
    allow_patterns: AllowPatterns = []
    ignore_patterns: IgnorePatterns = []
    duplicate_weights: DuplicateWeights = None
    allow_pickle: Annotated[
        bool | None, Meta(description="If false, nodes refuse the model if any of its files might be a pickle.")
    ] = None
    pv_spec: Annotated[
        RawObject,
        Meta(
            description="PersistentVolumeSpec to apply over that of the model's volumes: capacity, storageClassName, "
            "accessModes and mountOptions. Larder sets all other fields."
        ),
    ] = {}
    pvc_spec: Annotated[
        RawObject,
        Meta(
            description="PersistentVolumeClaimSpec to apply over that of the model's claims: resources, "
            "storageClassName and accessModes. Larder sets all other fields."
        ),
    ] = {}

    @property
    def groups(self) -> tuple[str, ...]:
        """The named groups without duplicates, in the order of the spec."""
        return tuple(dict.fromkeys(g for g in (self.node_group, *self.node_groups) if g))


StorageStatus = Literal["Pending", "Downloading", "Ready", "Failed", "Deleting"]


class ClusterModelCacheStatus(ModelStatus, frozen=True, kw_only=True):
    """The observed state of a cache."""

    storage_status: Annotated[
        StorageStatus | None,
        Meta(description="State of the cache: `Ready` once every target node that is itself Ready has the model."),
    ] = None
    printed_groups: Annotated[
        str,
        Meta(max_length=1024, description="Node groups of the cache, up to three by name, as printed by kubectl."),
    ] = ""


class ClusterModelCache(Object, frozen=True, kw_only=True):
    """A model kept on every node of a group."""

    spec: ClusterModelCacheSpec
    status: ClusterModelCacheStatus = ClusterModelCacheStatus()


__all__ = ["ClusterModelCache", "ClusterModelCacheSpec", "ClusterModelCacheStatus", "Name"]
