"""ClusterModelCache (`serving.kserve.io/v1alpha1`): a model kept on every node of a group."""

from typing import Annotated, Literal

from msgspec import Meta

from shared.api.meta import ApiStruct, Name, Patterns, Quantity, RawObject, StockStatus, StorageUri
from shared.kube.objects import Object

GROUP = "serving.kserve.io"
VERSION = "v1alpha1"


class ClusterModelCacheSpec(ApiStruct, frozen=True, kw_only=True):
    """What to keep, and on which groups of nodes."""

    storage_uri: Annotated[
        StorageUri,
        Meta(
            extra_json_schema={
                "x-kubernetes-validations": [
                    {
                        "rule": "self == oldSelf",
                        "message": "storageUri is immutable; create another cache for another model",
                    }
                ]
            }
        ),
    ]
    model_size: Annotated[
        Quantity | None,
        Meta(
            description="Bytes of the model, until the source has told them: admission warns where they are more than "
            "a group's limit."
        ),
    ] = None
    node_group: Annotated[
        str, Meta(max_length=253, description="The ModelCacheNodeGroup whose nodes shall hold the model.")
    ] = ""
    node_groups: Annotated[
        list[Annotated[str, Meta(max_length=253)]],
        Meta(max_length=100, extra_json_schema={"x-kubernetes-list-type": "atomic"}, description="More such groups."),
    ] = []
    credentials_secret: Annotated[
        str, Meta(max_length=253, description="A Secret of the release namespace that is labelled for Larder.")
    ] = ""
    allow_patterns: Annotated[
        Patterns,
        Meta(description="Of the source's files only those that fit one of these, for example `*.safetensors`."),
    ] = []
    ignore_patterns: Annotated[Patterns, Meta(description="No files that fit one of these.")] = []
    duplicate_weights: Annotated[
        Literal["keep", "skip"] | None,
        Meta(description="`skip` leaves out second copies of weights that are there in safetensors."),
    ] = None
    allow_pickle: Annotated[
        bool | None, Meta(description="False: nodes refuse the model if any of its files may be a pickle.")
    ] = None
    pv_spec: Annotated[RawObject, Meta(description="For local volumes; kept and not used yet.")] = {}
    pvc_spec: Annotated[RawObject, Meta(description="For local volumes; kept and not used yet.")] = {}

    @property
    def groups(self) -> tuple[str, ...]:
        """The named groups, each once, in the order written."""
        return tuple(dict.fromkeys(g for g in (self.node_group, *self.node_groups) if g))


StorageStatus = Literal["Pending", "pvcCreated", "Downloading", "Ready", "Failed", "Deleting"]


class ClusterModelCacheStatus(StockStatus, frozen=True, kw_only=True):
    """The proposal's words and ours."""

    storage_status: Annotated[
        StorageStatus | None,
        Meta(
            description="Ready when every node of the groups that is itself Ready has the model. `pvcCreated` is the "
            "proposal's; Larder does not write it."
        ),
    ] = None


class ClusterModelCache(Object, frozen=True, kw_only=True):
    """A model kept on every node of a group."""

    spec: ClusterModelCacheSpec
    status: ClusterModelCacheStatus = ClusterModelCacheStatus()


__all__ = ["ClusterModelCache", "ClusterModelCacheSpec", "ClusterModelCacheStatus", "Name"]
