"""Our kinds as the API server serves them: names, scope, printer columns."""

from dataclasses import dataclass

from shared.api import (
    base_model,
    cluster_model_cache,
    inference_service,
    model,
    model_cache,
    model_cache_node_group,
    model_node,
    training_job,
)
from shared.kube.objects import Meta

Column = tuple[str, str, str, int]  # name, type, JSON path, priority

_AGE: Column = ("Age", "date", ".metadata.creationTimestamp", 0)
_REASON: Column = ("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', 0)
_REVISION: Column = ("Revision", "string", ".status.servingRevision", 1)
_READY: Column = ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0)
_SINCE: Column = ("Since", "date", '.status.conditions[?(@.type=="Ready")].lastTransitionTime', 1)
_MESSAGE: Column = ("Message", "string", '.status.conditions[?(@.type=="Ready")].message', 1)


@dataclass(frozen=True, slots=True)
class Definition:
    """One custom resource.

    With `open_spec`, unknown fields are preserved. With `has_observer`, the controller always sets a status, so an
    object without one has not been observed yet. `rules` are CEL expressions over the whole object, with messages.
    """

    group: str
    version: str
    kind: str
    plural: str
    short_names: tuple[str, ...]
    namespaced: bool
    spec: type
    status: type
    columns: tuple[Column, ...]
    open_spec: bool = False
    has_observer: bool = True
    rules: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The name of the CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"

    @property
    def path(self) -> str:
        """The API path of the collection over all namespaces."""
        return f"/apis/{self.group}/{self.version}/{self.plural}"

    def path_in(self, namespace: str) -> str:
        """Return the API path of the collection in one namespace."""
        return f"/apis/{self.group}/{self.version}/namespaces/{namespace}/{self.plural}"

    def path_to(self, meta: Meta) -> str:
        """Return the API path of an object in a namespace."""
        return f"{self.path_in(meta.namespace)}/{meta.name}"


_BASE_COLUMNS: tuple[Column, ...] = (
    ("State", "string", ".status.state", 0),
    ("Nodes", "string", ".status.ready", 0),
    _REASON,
    ("Architecture", "string", ".spec.modelArchitecture", 1),
    ("Parameters", "string", ".spec.modelParameterSize", 1),
    ("URI", "string", ".spec.storage.storageUri", 1),
    ("Size", "string", ".status.printedSize", 1),
    _REVISION,
    _SINCE,
    _MESSAGE,
    _AGE,
)
BASE_MODEL = Definition(
    group=base_model.GROUP,
    version=base_model.VERSION,
    kind="BaseModel",
    plural="basemodels",
    short_names=("bm",),
    namespaced=True,
    spec=base_model.BaseModelSpec,
    status=base_model.BaseModelStatus,
    columns=_BASE_COLUMNS,
    open_spec=True,
)
CLUSTER_BASE_MODEL = Definition(
    group=base_model.GROUP,
    version=base_model.VERSION,
    kind="ClusterBaseModel",
    plural="clusterbasemodels",
    short_names=("cbm",),
    namespaced=False,
    spec=base_model.BaseModelSpec,
    status=base_model.BaseModelStatus,
    columns=_BASE_COLUMNS,
    open_spec=True,
)
CLUSTER_MODEL_CACHE = Definition(
    group=cluster_model_cache.GROUP,
    version=cluster_model_cache.VERSION,
    kind="ClusterModelCache",
    plural="clustermodelcaches",
    short_names=("cmc",),
    namespaced=False,
    spec=cluster_model_cache.ClusterModelCacheSpec,
    status=cluster_model_cache.ClusterModelCacheStatus,
    columns=(
        ("Status", "string", ".status.storageStatus", 0),
        ("Nodes", "string", ".status.ready", 0),
        _REASON,
        ("Groups", "string", ".status.printedGroups", 0),
        ("Size", "string", ".status.printedSize", 0),
        ("URI", "string", ".spec.storageUri", 1),
        _REVISION,
        _SINCE,
        _MESSAGE,
        _AGE,
    ),
)
MODEL_CACHE = Definition(
    group=model_cache.GROUP,
    version=model_cache.VERSION,
    kind="ModelCache",
    plural="modelcaches",
    short_names=("mc",),
    namespaced=True,
    spec=model_cache.ModelCacheSpec,
    status=model_cache.ModelCacheStatus,
    rules=model_cache.RULES,
    columns=(
        ("Status", "string", ".status.storageStatus", 0),
        ("Percent", "integer", ".status.percent", 0),
        _REASON,
        ("Claim", "string", ".status.claim", 0),
        ("Size", "string", ".status.printedSize", 0),
        ("URI", "string", ".spec.storageUri", 1),
        _REVISION,
        _SINCE,
        _MESSAGE,
        _AGE,
    ),
)
NODE_GROUP = Definition(
    group=model_cache_node_group.GROUP,
    version=model_cache_node_group.VERSION,
    kind="ModelCacheNodeGroup",
    plural="modelcachenodegroups",
    short_names=("mcng",),
    namespaced=False,
    spec=model_cache_node_group.ModelCacheNodeGroupSpec,
    status=model_cache_node_group.ModelCacheNodeGroupStatus,
    columns=(
        ("Nodes", "integer", ".status.nodeCount", 0),
        ("Limit", "string", ".status.printedLimit", 0),
        ("Used", "string", ".status.printedUsed", 0),
        ("Available", "string", ".status.printedAvailable", 0),
        ("Concurrency", "integer", ".spec.maxConcurrentNodes", 1),
        ("Eviction", "string", ".spec.evictionPolicy", 1),
        ("Overlapping", "string", '.status.conditions[?(@.type=="Overlapping")].status', 1),
        _AGE,
    ),
)
MODEL_NODE = Definition(
    group=model_node.GROUP,
    version=model_node.VERSION,
    kind="ModelNode",
    plural="modelnodes",
    short_names=("mdn",),
    namespaced=False,
    spec=model_node.ModelNodeSpec,
    status=model_node.ModelNodeStatus,
    columns=(
        _READY,
        ("Complete", "integer", ".status.readyCount", 0),
        ("Models", "integer", ".status.entryCount", 0),
        ("Used", "string", ".status.printedUsed", 0),
        ("Limit", "string", ".status.printedLimit", 0),
        ("Free", "string", ".status.printedFree", 1),
        ("Agent", "string", ".status.agentVersion", 1),
        _SINCE,
        _MESSAGE,
        _AGE,
    ),
)
INFERENCE_SERVICE = Definition(
    group=inference_service.GROUP,
    version=inference_service.VERSION,
    kind="InferenceService",
    plural="inferenceservices",
    short_names=("oisvc",),  # isvc is taken by KServe
    namespaced=True,
    spec=inference_service.InferenceServiceSpec,
    status=inference_service.InferenceServiceStatus,
    columns=(
        _READY,
        _REASON,
        ("Model", "string", ".status.model", 0),
        ("Replicas", "integer", ".status.readyReplicas", 0),
        ("URL", "string", ".status.url", 0),
        _REVISION,
        _SINCE,
        _MESSAGE,
        _AGE,
    ),
    has_observer=False,  # not observed if inferenceServices.enabled is false
    rules=inference_service.RULES,
)
MODEL = Definition(
    group=model.GROUP,
    version=model.VERSION,
    kind="Model",
    plural="models",
    short_names=("mdl",),
    namespaced=True,
    spec=model.ModelSpec,
    status=model.ModelObjectStatus,
    columns=(
        ("Phase", "string", ".status.phase", 0),
        ("Version", "string", ".spec.version", 0),
        ("Size", "string", ".spec.storage.size", 0),
        ("Progress", "integer", ".status.progress", 1),
        ("Message", "string", ".status.message", 1),
        _AGE,
    ),
    has_observer=False,  # not observed if models.enabled is false
    rules=model.RULES,
)
TRAINING_JOB = Definition(
    group=training_job.GROUP,
    version=training_job.VERSION,
    kind="TrainingJob",
    plural="trainingjobs",
    short_names=("tj",),
    namespaced=True,
    spec=training_job.TrainingJobSpec,
    status=training_job.TrainingJobStatus,
    columns=(
        _READY,
        _REASON,
        ("Running", "string", ".status.running", 0),
        ("Restarts", "integer", ".status.restarts", 0),
        ("Started", "date", ".status.startTime", 1),
        ("Completed", "date", ".status.completionTime", 1),
        ("Queue", "integer", ".status.queuePosition", 1),
        _SINCE,
        _MESSAGE,
        _AGE,
    ),
    has_observer=False,  # not observed if trainingJobs.enabled is false
    rules=training_job.RULES,
)
DEFINITIONS = (
    BASE_MODEL,
    CLUSTER_BASE_MODEL,
    CLUSTER_MODEL_CACHE,
    MODEL_CACHE,
    NODE_GROUP,
    MODEL_NODE,
    INFERENCE_SERVICE,
    MODEL,
    TRAINING_JOB,
)
MODEL_KINDS = (BASE_MODEL, CLUSTER_BASE_MODEL, CLUSTER_MODEL_CACHE)  # those that nodes hold
STATUS_KINDS = (*MODEL_KINDS, MODEL_CACHE, MODEL, TRAINING_JOB)  # those that `larder status` shows
