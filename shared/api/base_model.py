"""BaseModel and ClusterBaseModel (`ome.io/v1beta1`): a model by URI. Fields that we do not know are kept."""

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from shared.api.meta import ApiStruct, Labels, Name, NodeNames, RawObject, StockStatus, StorageUri
from shared.kube.objects import Object

GROUP = "ome.io"
VERSION = "v1beta1"
RESERVE_LABEL = "models.ome/reserve-model-artifact"

DownloadPolicy = Literal["AlwaysDownload", "ReuseIfExists"]
State = Literal["Creating", "Importing", "In_Transit", "In_Training", "Ready", "Failed"]


class ModelFormat(ApiStruct, frozen=True, kw_only=True):
    """The file format, and how a runtime's version is compared with it."""

    name: Annotated[str, Meta(max_length=253, description="The format, for example `safetensors`.")]
    version: Annotated[str | None, Meta(description="Its version, where a runtime cares.")] = None
    operator: Annotated[
        Literal["Equal", "GreaterThan", "GreaterThanOrEqual"],
        Meta(description="How a runtime compares its own version with this one."),
    ] = "Equal"
    weight: Annotated[int, Meta(description="How much a match counts when a runtime is chosen.")] = 1


class ModelFramework(ApiStruct, frozen=True, kw_only=True):
    """The library that the weights are for."""

    name: Annotated[str, Meta(max_length=253, description="The library, for example `transformers`.")]
    version: Annotated[str | None, Meta(description="Its version.")] = None
    operator: Annotated[
        Literal["Equal", "GreaterThan", "GreaterThanOrEqual"],
        Meta(description="How a runtime compares its own version with this one."),
    ] = "Equal"
    weight: Annotated[int, Meta(description="How much a match counts when a runtime is chosen.")] = 1


class Storage(ApiStruct, frozen=True, kw_only=True):
    """Where the model is, and which nodes shall hold it."""

    storage_uri: Annotated[
        StorageUri,
        Meta(
            description="Where the model comes from: `hf://`, `s3://`, `gs://`, `az://`, `oci://`, `https://`, "
            "`local://` or `pvc://`."
        ),
    ]
    path: Annotated[str, Meta(max_length=1024, description="Where pods find the model; never a path on the host.")] = ""
    schema_path: Annotated[str, Meta(max_length=1024, description="OME's; kept and not used.")] = ""
    parameters: Annotated[
        dict[str, Annotated[str, Meta(max_length=4096)]],
        Meta(
            max_length=100,
            description="`secretKey` names the key of the Secret that holds a token. `allowPatterns` and "
            "`ignorePatterns` (commas or line ends between them), `duplicateWeights` (keep, skip) and `allowPickle` "
            "(true, false) choose files, as the fields of a ClusterModelCache do.",
        ),
    ] = {}
    key: Annotated[str, Meta(max_length=253, description="Name of the Secret with the source's credentials.")] = ""
    node_selector: Annotated[Labels, Meta(description="Labels of the nodes that shall hold the model.")] = {}
    node_affinity: Annotated[
        RawObject, Meta(description="A v1.NodeAffinity that these nodes must fit as well; preferences do not count.")
    ] = {}
    download_policy: Annotated[
        DownloadPolicy,
        Meta(description="`ReuseIfExists` takes a revision that nodes have kept without asking the source again."),
    ] = "AlwaysDownload"


class BaseModelSpec(ApiStruct, frozen=True, kw_only=True):
    """A model, where it is, and what it can do."""

    storage: Storage
    model_format: ModelFormat | None = None
    model_type: Annotated[str | None, Meta(description="As in the `model_type` of the model's configuration.")] = None
    model_framework: ModelFramework | None = None
    model_architecture: Annotated[
        str | None, Meta(description="As the first of the `architectures` of its configuration.")
    ] = None
    quantization: Annotated[str | None, Meta(description="How the weights are quantized.")] = None
    model_parameter_size: Annotated[str | None, Meta(description="Number of parameters, for example `7B`.")] = None
    model_capabilities: Annotated[
        list[Annotated[str, Meta(max_length=63)]],
        Meta(max_length=64, description="What the model can do, for example `TEXT_TO_TEXT`."),
    ] = []
    api_capabilities: Annotated[
        list[Annotated[str, Meta(max_length=63)]], Meta(max_length=64, description="Which APIs a server of it offers.")
    ] = []
    model_configuration: Annotated[
        Any,
        Meta(
            extra_json_schema={"x-kubernetes-preserve-unknown-fields": True},
            description="Anything else about the model; kept as it is.",
        ),
    ] = None
    display_name: Annotated[str | None, Meta(description="A name for people.")] = None
    version: Annotated[str | None, Meta(description="The model's own version.")] = None
    disabled: Annotated[bool, Meta(description="No node keeps its files, and pods that name it are refused.")] = False
    vendor: Annotated[str | None, Meta(description="Who publishes the model.")] = None
    compartment_id: Annotated[str | None, Meta(description="OME's; kept and not used.")] = field(
        default=None, name="compartmentID"
    )
    serving_mode: Annotated[
        list[Annotated[str, Meta(max_length=63)]], Meta(max_length=16, description="OME's; kept and not used.")
    ] = []
    max_tokens: Annotated[int | None, Meta(description="How many tokens a request may have.")] = None
    diffusion_pipeline: Annotated[RawObject, Meta(description="The parts of a diffusion pipeline.")] = {}
    additional_metadata: Annotated[
        dict[str, Annotated[str, Meta(max_length=4096)]], Meta(max_length=500, description="Anything else, as text.")
    ] = {}


class BaseModelStatus(StockStatus, frozen=True, kw_only=True):
    """OME's words (state, lifecycle, nodes) and ours."""

    state: Annotated[
        State | None,
        Meta(description="Ready with the first ready node, else Failed with a failed one, else In_Transit."),
    ] = None
    lifecycle: Annotated[str, Meta(max_length=63, description="OME's; not written.")] = ""
    nodes_ready: Annotated[
        NodeNames, Meta(description="Nodes that have the model, the first 100 by name; nodesReadyCount has all.")
    ] = []
    nodes_failed: Annotated[
        NodeNames, Meta(description="Nodes that failed to get it, the first 100 by name; nodesFailedCount has all.")
    ] = []


class BaseModel(Object, frozen=True, kw_only=True):
    """A model for one namespace."""

    spec: BaseModelSpec
    status: BaseModelStatus = BaseModelStatus()


class ClusterBaseModel(BaseModel, frozen=True, kw_only=True):
    """A model for every namespace."""


__all__ = ["BaseModel", "BaseModelSpec", "BaseModelStatus", "ClusterBaseModel", "Name", "Storage"]
