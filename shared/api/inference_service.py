"""InferenceService (`ome.io/v1beta1`): replicas of a server, each with a model. Ours is smaller than OME's."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from shared.api.meta import ApiStruct, Conditions, Name, RawObject, StorageUri
from shared.kube.objects import Object

GROUP = "ome.io"
VERSION = "v1beta1"
DEFAULT_PORT = 8080
_KEEP = {"x-kubernetes-preserve-unknown-fields": True}
_CONTAINERS: dict[str, Any] = {
    "type": "array",
    "minItems": 1,
    "maxItems": 64,
    "description": "The first gets the model, unless `container` names another.",
    "items": {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string", "maxLength": 63, "description": "The container's name."}},
        **_KEEP,
    },
}
_TEMPLATE = {
    "required": ["spec"],
    "properties": {
        "metadata": {"type": "object", "description": "Labels and annotations of the pods.", **_KEEP},
        "spec": {
            "type": "object",
            "description": "A v1.PodSpec.",
            "required": ["containers"],
            "properties": {"containers": _CONTAINERS},
            **_KEEP,
        },
    },
    **_KEEP,
}
# Each rule with what it says; they look at the whole object.
RULES = (
    (
        "has(self.spec.model) != has(self.spec.storageUri)",
        "name the model by spec.model or by spec.storageUri, by one of the two",
    ),
    (
        (
            "!has(self.spec.container) || self.spec.container == '' || "
            "self.spec.template.spec.containers.exists(c, c.name == self.spec.container)"
        ),
        "spec.container names no container of spec.template",
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
        "the name is that of a Service, too: at most 63 small letters, digits and -, a letter first",
    ),
)


class ModelRef(ApiStruct, frozen=True, kw_only=True):
    """A model by name."""

    kind: Annotated[
        Literal["BaseModel", "ClusterBaseModel"],
        Meta(description="A BaseModel is one of the same namespace."),
    ] = "ClusterBaseModel"
    name: Annotated[Name, Meta(min_length=1, description="Its name.")]


class Replicas(ApiStruct, frozen=True, kw_only=True):
    """How many pods."""

    min: Annotated[
        int, Meta(ge=0, le=10000, description="How many at least; 1 where nothing stands here. 0 stops the service.")
    ] = 1
    max: Annotated[
        Annotated[int, Meta(ge=1, le=10000)] | None,
        Meta(description="How many at most; above `min` a HorizontalPodAutoscaler chooses."),
    ] = None
    metrics: Annotated[
        list[RawObject],
        Meta(
            max_length=16,
            extra_json_schema={"x-kubernetes-list-type": "atomic"},
            description="What it chooses by, as autoscaling/v2 MetricSpecs; where empty, 80% of the requested CPU.",
        ),
    ] = []

    @property
    def are_scaled(self) -> bool:
        """Whether an autoscaler chooses their number."""
        return self.max is not None and self.max > self.min > 0


class InferenceServiceSpec(ApiStruct, frozen=True, kw_only=True):
    """Which model, in which pods, how many of them."""

    model: Annotated[ModelRef | None, Meta(description="The model, by name.")] = None
    storage_uri: Annotated[
        StorageUri | None,
        Meta(description="The model, by the storageUri of one that is declared: a BaseModel of the namespace first."),
    ] = None
    replicas: Annotated[Replicas, Meta(description="How many pods; one where nothing stands here.")] = Replicas()
    template: Annotated[
        dict[str, Any],
        Meta(extra_json_schema=_TEMPLATE, description="A v1.PodTemplateSpec. The model comes into it by itself."),
    ]
    container: Annotated[
        str, Meta(max_length=63, description="The container that gets the model, where it is not the first.")
    ] = ""
    port: Annotated[
        int, Meta(ge=1, le=65535, description="The port that the container serves on, and the Service; 8080 if none.")
    ] = DEFAULT_PORT
    strategy: Annotated[
        RawObject, Meta(description="The Deployment's strategy, for example `type: Recreate` where a claim is for one.")
    ] = {}

    @property
    def served_container(self) -> str:
        """The name of the container that gets the model; empty where the template has none."""
        containers: list[dict[str, Any]] = (self.template.get("spec") or {}).get("containers") or []
        return self.container or next((str(c.get("name", "")) for c in containers), "")


class InferenceServiceStatus(ApiStruct, frozen=True, kw_only=True):
    """Where it answers, and how far it is."""

    conditions: Conditions = []
    observed_generation: Annotated[int, Meta(description="The generation that the status tells of.")] = 0
    url: Annotated[str, Meta(max_length=300, description="Where it answers within the cluster.")] = ""
    model: Annotated[str, Meta(max_length=600, description="The model, with its kind.")] = ""
    serving_revision: Annotated[
        str, Meta(max_length=128, description="The revision that new pods get; empty for a model on a claim.")
    ] = ""
    replicas: Annotated[int, Meta(description="How many pods there are.")] = 0
    ready_replicas: Annotated[int, Meta(description="How many of them are ready.")] = 0


class InferenceService(Object, frozen=True, kw_only=True):
    """Replicas of a server, each with a model."""

    spec: InferenceServiceSpec
    status: InferenceServiceStatus = InferenceServiceStatus()


__all__ = ["DEFAULT_PORT", "InferenceService", "InferenceServiceSpec", "InferenceServiceStatus", "ModelRef", "Replicas"]
