"""InferenceService (`ome.io/v1beta1`): replicas of a model server. A subset of OME's kind."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from shared.api.meta import ApiStruct, Conditions, Name, RawObject, StorageUri
from shared.api.pod_template import pod_template
from shared.kube.objects import Object

GROUP = "ome.io"
VERSION = "v1beta1"
DEFAULT_PORT = 8080
_CONTAINERS = "Containers of the pods. The first serves the model, unless `container` names another."
# CEL rules over the whole object, each with the message for objects that break it.
RULES = (
    (
        "has(self.spec.model) != has(self.spec.storageUri)",
        "set exactly one of spec.model and spec.storageUri",
    ),
    (
        (
            "!has(self.spec.container) || self.spec.container == '' || "
            "self.spec.template.spec.containers.exists(c, c.name == self.spec.container)"
        ),
        "spec.container does not name a container in spec.template",
    ),
    (
        (
            "!has(self.spec.replicas) || !has(self.spec.replicas.max) || "
            "self.spec.replicas.max >= (has(self.spec.replicas.min) ? self.spec.replicas.min : 1)"
        ),
        "spec.replicas.max is less than spec.replicas.min",
    ),
    (
        "self.metadata.name.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')",
        (
            "the name must also be valid for a Service: at most 63 lowercase letters, digits and '-', starting with a "
            "letter and ending with a letter or digit"
        ),
    ),
)


class ModelRef(ApiStruct, frozen=True, kw_only=True):
    """A reference to a model by name."""

    kind: Annotated[
        Literal["BaseModel", "ClusterBaseModel"],
        Meta(
            description="Kind of the model. A BaseModel must be in the same namespace. Defaults to `ClusterBaseModel`."
        ),
    ] = "ClusterBaseModel"
    name: Annotated[Name, Meta(min_length=1, description="Name of the model.")]


class Replicas(ApiStruct, frozen=True, kw_only=True):
    """The number of pods, fixed or chosen by an autoscaler."""

    min: Annotated[
        int, Meta(ge=0, le=10000, description="Minimum number of pods. 0 stops the service. Defaults to 1.")
    ] = 1
    max: Annotated[
        Annotated[int, Meta(ge=1, le=10000)] | None,
        Meta(
            description="Maximum number of pods. If it is greater than `min`, and `min` is not 0, a "
            "HorizontalPodAutoscaler chooses the number."
        ),
    ] = None
    metrics: Annotated[
        list[RawObject],
        Meta(
            max_length=16,
            extra_json_schema={"x-kubernetes-list-type": "atomic"},
            description="The autoscaler's metrics, as autoscaling/v2 MetricSpecs. Defaults to 80% of the "
            "requested CPU.",
        ),
    ] = []

    @property
    def are_scaled(self) -> bool:
        """Whether an autoscaler chooses the number of pods."""
        return self.max is not None and self.max > self.min > 0


class InferenceServiceSpec(ApiStruct, frozen=True, kw_only=True):
    """The desired state of a service. Exactly one of `model` and `storageUri` must be set."""

    model: Annotated[ModelRef | None, Meta(description="The model to serve, by name.")] = None
    storage_uri: Annotated[
        StorageUri | None,
        Meta(
            description="The model to serve, by its `storageUri`. A BaseModel in the namespace takes precedence "
            "over a ClusterBaseModel."
        ),
    ] = None
    replicas: Annotated[Replicas, Meta(description="Number of pods. Defaults to one.")] = Replicas()
    template: Annotated[
        dict[str, Any],
        Meta(
            extra_json_schema=pod_template(_CONTAINERS),
            description="A v1.PodTemplateSpec for the pods. Larder adds the model to it.",
        ),
    ]
    container: Annotated[
        str, Meta(max_length=63, description="Name of the container that serves the model. Defaults to the first one.")
    ] = ""
    port: Annotated[
        int, Meta(ge=1, le=65535, description="Port of the container and of the Service. Defaults to 8080.")
    ] = DEFAULT_PORT
    strategy: Annotated[
        RawObject,
        Meta(
            description="Update strategy of the Deployment. Use `type: Recreate` if a claim can be mounted by "
            "only one pod."
        ),
    ] = {}

    @property
    def served_container(self) -> str:
        """The name of the container that serves the model; empty if the template has no containers."""
        containers: list[dict[str, Any]] = (self.template.get("spec") or {}).get("containers") or []
        return self.container or next((str(c.get("name", "")) for c in containers), "")


class InferenceServiceStatus(ApiStruct, frozen=True, kw_only=True):
    """The observed state of a service."""

    conditions: Conditions = []
    observed_generation: Annotated[int, Meta(description="Generation of the object that this status describes.")] = 0
    url: Annotated[str, Meta(max_length=300, description="URL of the service inside the cluster.")] = ""
    model: Annotated[str, Meta(max_length=600, description="Kind and name of the model.")] = ""
    serving_revision: Annotated[
        str,
        Meta(
            max_length=128,
            description="Revision of the model that new pods get. Empty for a model on a PersistentVolumeClaim.",
        ),
    ] = ""
    replicas: Annotated[int, Meta(description="Number of pods.")] = 0
    ready_replicas: Annotated[int, Meta(description="Number of pods that are ready.")] = 0


class InferenceService(Object, frozen=True, kw_only=True):
    """Replicas of a model server."""

    spec: InferenceServiceSpec
    status: InferenceServiceStatus = InferenceServiceStatus()


__all__ = ["DEFAULT_PORT", "InferenceService", "InferenceServiceSpec", "InferenceServiceStatus", "ModelRef", "Replicas"]
