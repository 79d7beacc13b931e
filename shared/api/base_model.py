"""BaseModel and ClusterBaseModel (`ome.io/v1beta1`): a model by URI. Unknown fields are preserved."""

from typing import Annotated, Any, Literal

from msgspec import Meta, field
from msgspec.structs import force_setattr

from shared.api.core import is_long
from shared.api.meta import ApiStruct, Labels, ModelStatus, Name, NodeNames, RawObject, StorageUri
from shared.api.node_affinity import readable
from shared.kube.objects import Object, drop_excess

GROUP = "ome.io"
VERSION = "v1beta1"
LONG_PIPELINE = {"tooLong": True}  # in place of a pipeline that is longer than any that Larder writes
RESERVE_LABEL = "models.ome/reserve-model-artifact"

DownloadPolicy = Literal["AlwaysDownload", "ReuseIfExists"]
State = Literal["Creating", "Importing", "In_Transit", "In_Training", "Ready", "Failed"]


class ModelFormat(ApiStruct, frozen=True, kw_only=True):
    """The file format of the model, and how serving runtimes match it."""

    name: Annotated[str, Meta(max_length=253, description="Name of the format, for example `safetensors`.")]
    version: Annotated[
        str | None, Meta(description="Version of the format, for runtimes that support only some versions.")
    ] = None
    operator: Annotated[
        Literal["Equal", "GreaterThan", "GreaterThanOrEqual"],
        Meta(description="How the version that a runtime supports is compared with this one. Defaults to `Equal`."),
    ] = "Equal"
    weight: Annotated[int, Meta(description="How much a match counts when a runtime is selected. Defaults to 1.")] = 1


class ModelFramework(ApiStruct, frozen=True, kw_only=True):
    """The library that the weights were made for, and how serving runtimes match it."""

    name: Annotated[str, Meta(max_length=253, description="Name of the library, for example `transformers`.")]
    version: Annotated[str | None, Meta(description="Version of the library.")] = None
    operator: Annotated[
        Literal["Equal", "GreaterThan", "GreaterThanOrEqual"],
        Meta(description="How the version that a runtime supports is compared with this one. Defaults to `Equal`."),
    ] = "Equal"
    weight: Annotated[int, Meta(description="How much a match counts when a runtime is selected. Defaults to 1.")] = 1


class Storage(ApiStruct, frozen=True, kw_only=True):
    """Where the model comes from, and which nodes store it."""

    storage_uri: Annotated[
        StorageUri,
        Meta(
            description="Source of the model: an `hf://`, `s3://`, `gs://`, `az://`, `oci://`, `https://`, "
            "`git+https://`, `local://` or `pvc://` URI."
        ),
    ]
    path: Annotated[
        str,
        Meta(
            max_length=1024,
            description="Path at which pods mount the model. It is a path in the container, never on the host. "
            "Defaults to `/opt/ml/model`.",
        ),
    ] = ""
    schema_path: Annotated[
        str, Meta(max_length=1024, description="Part of OME's API. Stored, but not used by Larder.")
    ] = ""
    parameters: Annotated[
        dict[str, Annotated[str, Meta(max_length=4096)]],
        Meta(
            max_length=100,
            description="Options for the source. `secretKey` is the key of the Secret that holds the token. "
            "`allowPatterns` and `ignorePatterns` (separated by commas or line breaks), "
            "`duplicateWeights` (`keep` or `skip`) and `allowPickle` (`true` or `false`) select files "
            "like the fields of the same names in a ClusterModelCache.",
        ),
    ] = {}
    key: Annotated[str, Meta(max_length=253, description="Name of the Secret with the credentials for the source.")] = (
        ""
    )
    node_selector: Annotated[Labels, Meta(description="Labels that a node must have to store the model.")] = {}
    node_affinity: Annotated[
        RawObject,
        Meta(
            description="A v1.NodeAffinity that a node must also satisfy. Preferred terms are ignored. In a "
            "BaseModel, it may have at most 4 KiB."
        ),
    ] = {}
    download_policy: Annotated[
        DownloadPolicy,
        Meta(
            description="Whether to query the source for the current revision. `ReuseIfExists` adopts a revision "
            "that nodes still have without querying the source. Defaults to `AlwaysDownload`."
        ),
    ] = "AlwaysDownload"

    def __post_init__(self) -> None:
        """Replace a node affinity of the wrong shape."""
        force_setattr(self, "node_affinity", readable(self.node_affinity))


class BaseModelSpec(ApiStruct, frozen=True, kw_only=True):
    """The desired state of a base model: its source, its nodes, and a description of the model."""

    storage: Storage
    model_format: ModelFormat | None = None
    model_type: Annotated[str | None, Meta(description="The `model_type` in the model's configuration.")] = None
    model_framework: ModelFramework | None = None
    model_architecture: Annotated[
        str | None, Meta(description="The first of the `architectures` in the model's configuration.")
    ] = None
    quantization: Annotated[str | None, Meta(description="Quantization of the weights.")] = None
    model_parameter_size: Annotated[str | None, Meta(description="Number of parameters, for example `7B`.")] = None
    model_capabilities: Annotated[
        list[Annotated[str, Meta(max_length=63)]],
        Meta(max_length=64, description="What the model can do, for example `TEXT_TO_TEXT`."),
    ] = []
    api_capabilities: Annotated[
        list[Annotated[str, Meta(max_length=63)]],
        Meta(max_length=64, description="APIs that a server of this model offers."),
    ] = []
    model_configuration: Annotated[
        Any,
        Meta(
            extra_json_schema={"x-kubernetes-preserve-unknown-fields": True},
            description="Free-form configuration of the model. Stored, but not used by Larder.",
        ),
    ] = None
    display_name: Annotated[str | None, Meta(description="Human-readable name of the model.")] = None
    version: Annotated[str | None, Meta(description="Version of the model.")] = None
    disabled: Annotated[
        bool,
        Meta(description="If true, no node stores the model, and pods that name it are refused. Defaults to false."),
    ] = False
    vendor: Annotated[str | None, Meta(description="Publisher of the model.")] = None
    compartment_id: Annotated[str | None, Meta(description="Part of OME's API. Stored, but not used by Larder.")] = (
        field(default=None, name="compartmentID")
    )
    serving_mode: Annotated[
        list[Annotated[str, Meta(max_length=63)]],
        Meta(max_length=16, description="Part of OME's API. Stored, but not used by Larder."),
    ] = []
    max_tokens: Annotated[int | None, Meta(description="Maximum number of tokens per request.")] = None
    diffusion_pipeline: Annotated[RawObject, Meta(description="Components of a diffusion pipeline.")] = {}
    additional_metadata: Annotated[
        dict[str, Annotated[str, Meta(max_length=4096)]],
        Meta(max_length=500, description="Additional metadata, as free-form text."),
    ] = {}

    def __post_init__(self) -> None:
        """Drop free-form fields that Larder does not use: in memory, they take up to fifteen times their text."""
        force_setattr(self, "model_configuration", None)
        force_setattr(self, "additional_metadata", {})
        if is_long(self.diffusion_pipeline):
            force_setattr(self, "diffusion_pipeline", dict(LONG_PIPELINE))


class BaseModelStatus(ModelStatus, frozen=True, kw_only=True):
    """The observed state of a base model. `state`, `lifecycle`, `nodesReady` and `nodesFailed` are OME's."""

    state: Annotated[
        State | None,
        Meta(
            description="State of the model: `Ready` if at least one node has it, otherwise `Failed` if a node "
            "failed to get it, otherwise `In_Transit`."
        ),
    ] = None
    lifecycle: Annotated[str, Meta(max_length=63, description="Part of OME's API. Not set by Larder.")] = ""
    nodes_ready: Annotated[
        NodeNames,
        Meta(
            description="Names of the nodes that have the model: the first 100 in alphabetical order. "
            "`nodesReadyCount` counts them all."
        ),
    ] = []
    nodes_failed: Annotated[
        NodeNames,
        Meta(
            description="Names of the nodes that failed to get the model: the first 100 in alphabetical order. "
            "`nodesFailedCount` counts them all."
        ),
    ] = []


class BaseModel(Object, frozen=True, kw_only=True):
    """A model for one namespace."""

    spec: BaseModelSpec
    status: BaseModelStatus = BaseModelStatus()

    def __post_init__(self) -> None:
        """Drop metadata that would take too much memory."""
        drop_excess(self.metadata)


class ClusterBaseModel(BaseModel, frozen=True, kw_only=True):
    """A model for every namespace."""


__all__ = ["BaseModel", "BaseModelSpec", "BaseModelStatus", "ClusterBaseModel", "Name", "Storage"]
