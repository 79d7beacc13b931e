"""ModelCache (`serving.kserve.io/v1alpha1`): a model on a claim of its own, for the pods of one namespace."""

from typing import Annotated, Literal

from msgspec import Meta

from shared.api.meta import (
    AllowPatterns,
    ApiStruct,
    DuplicateWeights,
    IgnorePatterns,
    Labels,
    Quantity,
    RawObject,
    SourceStatus,
    StorageUri,
    immutable_source,
)
from shared.kube.objects import Object, drop_excess

GROUP = "serving.kserve.io"
VERSION = "v1alpha1"
MODEL_DIRECTORY = "model"  # of the claim; pods mount it, or a part of it


_SELECTION = ("allowPatterns", "ignorePatterns", "duplicateWeights", "allowPickle")
_UNCHANGED = " && ".join(
    f"has(self.spec.{name}) == has(oldSelf.spec.{name}) && "
    f"(!has(self.spec.{name}) || self.spec.{name} == oldSelf.spec.{name})"
    for name in _SELECTION
)
_NOT_FILLED = "!has(oldSelf.status) || !has(oldSelf.status.claimUid) || oldSelf.status.claimUid == ''"
_IMMUTABLE = "are immutable once the model is on its claim; to cache other files, create another ModelCache"
RULES = ((f"{_NOT_FILLED} || ({_UNCHANGED})", f"{', '.join(_SELECTION)} {_IMMUTABLE}"),)


class ModelCacheSpec(ApiStruct, frozen=True, kw_only=True):
    """The desired state of a cache: the model, and the claim that stores it."""

    storage_uri: Annotated[StorageUri, immutable_source("ModelCache")]
    model_size: Annotated[
        Quantity | None,
        Meta(
            description="Size of the model in bytes, which determines the size of the claim. Defaults to the size "
            "that the source reports."
        ),
    ] = None
    credentials_secret: Annotated[
        str,
        Meta(
            max_length=253,
            description="Name of a Secret in the same namespace with the credentials for the source. The Secret must "
            "have the label `larder.dev/credentials`.",
        ),
    ] = ""
    allow_patterns: AllowPatterns = []
    ignore_patterns: IgnorePatterns = []
    duplicate_weights: DuplicateWeights = None
    allow_pickle: Annotated[
        bool | None, Meta(description="If false, the model is refused if any of its files might be a pickle.")
    ] = None
    node_selector: Annotated[
        Labels,
        Meta(
            description="Labels that the node of the download must have. The throttles of these nodes' "
            "ModelCacheNodeGroups apply. With a storage class of local volumes, this also chooses where pods run."
        ),
    ] = {}
    pvc_spec: Annotated[
        RawObject,
        Meta(
            description="PersistentVolumeClaimSpec to apply over that of the claim: storageClassName, accessModes "
            "(ReadWriteOnce by default) and resources. Larder sets all other fields."
        ),
    ] = {}
    pv_spec: Annotated[
        RawObject,
        Meta(
            description="If set, Larder also creates the volume, for storage that no StorageClass provisions: csi, "
            "capacity, storageClassName, accessModes, mountOptions and persistentVolumeReclaimPolicy. An administrator "
            "must allow the driver."
        ),
    ] = {}


CacheStatus = Literal["Pending", "pvcCreated", "Downloading", "Ready", "Failed", "Deleting"]


class ModelCacheStatus(SourceStatus, frozen=True, kw_only=True):
    """The observed state of a cache."""

    storage_status: Annotated[
        CacheStatus | None,
        Meta(
            description="State of the cache: `pvcCreated` while the claim waits for its volume or the download for its "
            "pod, `Ready` once every file is on the claim and verified."
        ),
    ] = None
    claim: Annotated[
        str,
        Meta(
            max_length=253,
            description="Name of the claim. It is that of the cache, unless another claim already has that name.",
        ),
    ] = ""
    claim_uid: Annotated[
        str, Meta(max_length=63, description="UID of the claim that has the files of `servingRevision`.")
    ] = ""
    job: Annotated[str, Meta(max_length=253, description="Name of the last download Job.")] = ""
    percent: Annotated[
        int, Meta(ge=0, le=100, description="Progress of the download in percent, in steps of five.")
    ] = 0
    attempts: Annotated[int, Meta(description="Number of downloads that failed in a row.")] = 0
    retry_at: Annotated[
        str, Meta(max_length=32, description="When the next download starts after one that failed.")
    ] = ""
    resolved_revision: Annotated[
        str, Meta(max_length=128, description="Commit or digest that the source was resolved to.")
    ] = ""
    serving_revision: Annotated[str, Meta(max_length=128, description="Revision that is complete on the claim.")] = ""


class ModelCache(Object, frozen=True, kw_only=True):
    """A model on a claim of its own."""

    spec: ModelCacheSpec
    status: ModelCacheStatus = ModelCacheStatus()

    def __post_init__(self) -> None:
        """Drop metadata that would take too much memory."""
        drop_excess(self.metadata)
