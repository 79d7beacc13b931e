"""BaseModel and ClusterBaseModel (`ome.io/v1beta1`): a model by URI. Fields that we do not know are kept."""

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from shared.api.meta import Api, Labels, Name, NodeNames, RawObject, StockStatus, StorageUri
from shared.kube.objects import Object

GROUP = "ome.io"
VERSION = "v1beta1"
RESERVE_LABEL = "models.ome/reserve-model-artifact"

DownloadPolicy = Literal["AlwaysDownload", "ReuseIfExists"]
State = Literal["Creating", "Importing", "In_Transit", "In_Training", "Ready", "Failed"]


class ModelFormat(Api, frozen=True, kw_only=True):
    """The file format, and how a runtime's version is compared with it."""

    name: Annotated[str, Meta(max_length=253)]
    version: str | None = None
    operator: Literal["Equal", "GreaterThan", "GreaterThanOrEqual"] = "Equal"
    weight: int = 1


class ModelFramework(Api, frozen=True, kw_only=True):
    """The library that the weights are for."""

    name: Annotated[str, Meta(max_length=253)]
    version: str | None = None
    operator: Literal["Equal", "GreaterThan", "GreaterThanOrEqual"] = "Equal"
    weight: int = 1


class Storage(Api, frozen=True, kw_only=True):
    """Where the model is, and which nodes shall hold it."""

    storage_uri: StorageUri
    path: Annotated[str, Meta(max_length=1024, description="Where pods find the model; never a path on the host.")] = ""
    schema_path: Annotated[str, Meta(max_length=1024)] = ""
    parameters: Annotated[dict[str, Annotated[str, Meta(max_length=4096)]], Meta(max_length=100)] = {}
    key: Annotated[str, Meta(max_length=253, description="Name of the Secret with the source's credentials.")] = ""
    node_selector: Labels = {}
    node_affinity: RawObject = {}
    download_policy: DownloadPolicy = "AlwaysDownload"


class BaseModelSpec(Api, frozen=True, kw_only=True):
    """A model, where it is, and what it can do."""

    storage: Storage
    model_format: ModelFormat | None = None
    model_type: str | None = None
    model_framework: ModelFramework | None = None
    model_architecture: str | None = None
    quantization: str | None = None
    model_parameter_size: str | None = None
    model_capabilities: Annotated[list[Annotated[str, Meta(max_length=63)]], Meta(max_length=64)] = []
    api_capabilities: Annotated[list[Annotated[str, Meta(max_length=63)]], Meta(max_length=64)] = []
    model_configuration: Annotated[Any, Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True})] = None
    display_name: str | None = None
    version: str | None = None
    disabled: bool = False
    vendor: str | None = None
    compartment_id: str | None = field(default=None, name="compartmentID")
    serving_mode: Annotated[list[Annotated[str, Meta(max_length=63)]], Meta(max_length=16)] = []
    max_tokens: int | None = None
    diffusion_pipeline: RawObject = {}
    additional_metadata: Annotated[dict[str, Annotated[str, Meta(max_length=4096)]], Meta(max_length=500)] = {}


class BaseModelStatus(StockStatus, frozen=True, kw_only=True):
    """OME's words (state, lifecycle, nodes) and ours."""

    state: State | None = None
    lifecycle: Annotated[str, Meta(max_length=63)] = ""
    nodes_ready: NodeNames = []
    nodes_failed: NodeNames = []


class BaseModel(Object, frozen=True, kw_only=True):
    """A model for one namespace."""

    spec: BaseModelSpec
    status: BaseModelStatus = BaseModelStatus()


class ClusterBaseModel(BaseModel, frozen=True, kw_only=True):
    """A model for every namespace."""


__all__ = ["BaseModel", "BaseModelSpec", "BaseModelStatus", "ClusterBaseModel", "Name", "Storage"]
