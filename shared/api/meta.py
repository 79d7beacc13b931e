"""Types and fields that several kinds share."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from shared import quantity

RECONCILING, STALLED = ABNORMAL = ("Reconciling", "Stalled")  # of kstatus; present only while they are True


class ApiStruct(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True, kw_only=True):
    """A part of an object; fields are camelCase on the wire."""


class Condition(ApiStruct, frozen=True, kw_only=True, omit_defaults=False):
    """One observation of an object, as in metav1.Condition."""

    type: Annotated[str, Meta(max_length=316)]
    status: Annotated[str, Meta(pattern="^(True|False|Unknown)$")]
    reason: Annotated[str, Meta(max_length=1024)]
    message: Annotated[str, Meta(max_length=32768)] = ""
    last_transition_time: str
    observed_generation: int | UnsetType = UNSET  # optional in conditions of other controllers


class _AnyCondition(Protocol):
    """Any condition, however little of it is decoded."""

    @property
    def type(self) -> str: ...

    @property
    def status(self) -> str: ...


_C = TypeVar("_C", bound=_AnyCondition)


def condition_of(conditions: Iterable[_C], kind: str) -> _C | None:
    """Return the condition of a type, or None."""
    return next((c for c in conditions if c.type == kind), None)


def holds(conditions: Iterable[_AnyCondition], kind: str, status: str = "True") -> bool:
    """Return whether there is a condition of a type with a status, by default True."""
    return any(c.type == kind and c.status == status for c in conditions)


Quantity = Annotated[int | str, Meta(extra_json_schema={"x-larder-quantity": quantity.PATTERN})]
StorageUri = Annotated[str, Meta(min_length=1, max_length=2048)]
Name = Annotated[str, Meta(max_length=253)]
GitRevision = Annotated[
    str,
    Meta(
        max_length=255,
        description="Branch, tag or commit. Defaults to `main`.",
        extra_json_schema={"x-larder-default": "main"},
    ),
]


def immutable_source(kind: str) -> Meta:
    """Return the schema that makes the API server refuse to change the `storageUri` of a cache."""
    message = f"storageUri is immutable; to cache another model, create another {kind}"
    return Meta(
        extra_json_schema={"x-kubernetes-validations": [{"rule": "self == oldSelf", "message": message}]},
        description="Source of the model. Immutable.",
    )


Conditions = Annotated[
    list[Condition],
    Meta(
        max_length=32,
        extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        description="Latest observations of the state of the object.",
    ),
]
Labels = Annotated[dict[str, Annotated[str, Meta(max_length=63)]], Meta(max_length=100)]
RawObject = Annotated[dict[str, Any], Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True})]
Patterns = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=512)]],
    Meta(max_length=100, extra_json_schema={"x-kubernetes-list-type": "atomic"}),
]
AllowPatterns = Annotated[
    Patterns,
    Meta(
        description="If set, only files of the source that match at least one of these patterns are downloaded, for "
        "example `*.safetensors`."
    ),
]
IgnorePatterns = Annotated[
    Patterns, Meta(description="Files of the source that match any of these patterns are not downloaded.")
]
DuplicateWeights = Annotated[
    Literal["keep", "skip"] | None,
    Meta(
        description="Whether to download weights in other formats that the source also has as safetensors: `skip` "
        "leaves them out. Defaults to `keep`."
    ),
]
NodeNames = Annotated[list[Annotated[str, Meta(max_length=253)]], Meta(max_length=10000)]


class NodeState(ApiStruct, frozen=True, kw_only=True):
    """The state of a model on one node."""

    name: Annotated[Name, Meta(description="Name of the node.")]
    phase: Annotated[
        str,
        Meta(
            max_length=63, description="Phase of the model on the node, or `NotReady` if the node itself is not Ready."
        ),
    ]
    percent: Annotated[
        int, Meta(ge=0, le=100, description="Progress of the download in percent, in steps of five.")
    ] = 0
    reason: Annotated[
        str,
        Meta(
            max_length=63, description="Machine-readable reason, in CamelCase, why the model is not ready on the node."
        ),
    ] = ""
    message: Annotated[
        str, Meta(max_length=2048, description="Human-readable explanation of the reason, with figures and what to do.")
    ] = ""
    revision: Annotated[str, Meta(max_length=128, description="Revision that this state describes.")] = ""
    revisions: Annotated[
        list[Annotated[str, Meta(max_length=128)]],
        Meta(
            max_length=8,
            description="Revisions of the model that are complete on the node.",
            extra_json_schema={"x-kubernetes-list-type": "atomic"},
        ),
    ] = []


class LeftOut(ApiStruct, frozen=True, kw_only=True):
    """The files of the source that are not downloaded: excluded by patterns, or duplicates of other weights."""

    files: Annotated[int, Meta(description="Number of these files.")] = 0
    size: Annotated[int, Meta(description="Total size of these files in bytes.")] = 0
    duplicate_size: Annotated[int, Meta(description="Size in bytes of those files that duplicate other weights.")] = 0
    names: Annotated[
        list[Annotated[str, Meta(max_length=256)]],
        Meta(
            max_length=20,
            description="Names of the largest of these files.",
            extra_json_schema={"x-kubernetes-list-type": "atomic"},
        ),
    ] = []


class ReadMetadata(ApiStruct, frozen=True, kw_only=True):
    """Metadata read from the files of the model, stored so that each revision is read only once."""

    identity: Annotated[
        str,
        Meta(
            max_length=64,
            description="Identifies what was read: a digest of the claim and sub-path, or of the list of files.",
        ),
    ] = ""
    time: Annotated[str, Meta(max_length=32, description="Time of the last attempt to read the metadata.")] = ""
    attempts: Annotated[int, Meta(description="Number of attempts to read the metadata.")] = 0
    node: Annotated[
        Name,
        Meta(
            description="Name of the node whose agent read the metadata from an unpacked archive. Empty if the "
            "source or a Job was used instead."
        ),
    ] = ""
    missing: Annotated[
        bool, Meta(description="True if the sub-path of the claim does not exist, so that pods cannot mount it.")
    ] = False
    unchecked: Annotated[
        bool,
        Meta(description="True if Larder has not been able to check that the sub-path exists. Pods wait until it has."),
    ] = False
    reason: Annotated[
        str,
        Meta(max_length=63, description="Machine-readable reason, in CamelCase, why the metadata could not be read."),
    ] = ""
    message: Annotated[
        str, Meta(max_length=2048, description="Human-readable explanation of the reason, with what to do.")
    ] = ""
    parameters_estimated: Annotated[
        bool, Meta(description="True if the number of parameters was estimated from the size and type of the weights.")
    ] = False
    values: Annotated[RawObject, Meta(description="The metadata, in the format of `larder inspect -o json`.")] = {}


class SourceStatus(ApiStruct, frozen=True, kw_only=True):
    """What Larder reports about the source of a model, wherever the files go."""

    conditions: Conditions = []
    observed_generation: Annotated[int, Meta(description="Generation of the object that this status describes.")] = 0
    source: Annotated[str, Meta(max_length=2048, description="URI that was resolved.")] = ""
    refreshed: Annotated[
        str, Meta(max_length=1024, description="Last value of the annotation `larder.dev/refresh` that was handled.")
    ] = ""
    manifest_digest: Annotated[
        str,
        Meta(
            max_length=64,
            description="SHA-256 digest of the list of files. The ConfigMap that stores the list is named after it.",
        ),
    ] = ""
    size: Annotated[int, Meta(description="Size of one copy in bytes.")] = 0
    printed_size: Annotated[
        str, Meta(max_length=32, description="`size` in a human-readable unit, as printed by kubectl.")
    ] = ""
    files: Annotated[int, Meta(description="Number of files.")] = 0
    selection: Annotated[
        str,
        Meta(
            max_length=63,
            description="Digest of the file selection that was resolved. Empty if the whole source was selected.",
        ),
    ] = ""
    left_out: LeftOut | None = None


class ModelStatus(SourceStatus, frozen=True, kw_only=True):
    """What Larder reports about a model, whichever kind declares it."""

    resolved_revision: Annotated[
        str,
        Meta(
            max_length=128,
            description="Commit or digest that the source was resolved to. All nodes download this revision.",
        ),
    ] = ""
    serving_revision: Annotated[str, Meta(max_length=128, description="Revision that new pods get.")] = ""
    claim_revision: Annotated[
        str,
        Meta(
            max_length=128,
            description="First revision that served. Its claims are named after the model; claims of other revisions "
            "have a hash in their names.",
        ),
    ] = ""
    upstream_revision: Annotated[
        str, Meta(max_length=128, description="Revision that the source had when it was last checked.")
    ] = ""
    resolution_number: Annotated[
        int,
        Meta(
            description="Sequence number of the resolution. If several objects share a model, the resolution with "
            "the highest number applies to all of them."
        ),
    ] = 0
    nodes_total: Annotated[
        int, Meta(description="Number of nodes that should have the model, including nodes that are not Ready.")
    ] = 0
    nodes_ready_count: Annotated[int, Meta(description="Number of nodes that have the model.")] = 0
    nodes_failed_count: Annotated[int, Meta(description="Number of nodes that failed to get the model.")] = 0
    ready: Annotated[
        str, Meta(max_length=32, description="Number of ready nodes and of all target nodes, as printed by kubectl.")
    ] = ""
    node_status: Annotated[
        dict[str, Annotated[str, Meta(max_length=63)]],
        Meta(max_length=10000, description="Phase of the model by node name."),
    ] = {}
    nodes: Annotated[
        list[NodeState],
        Meta(
            max_length=100,
            extra_json_schema={"x-kubernetes-list-type": "atomic"},
            description="State of the model on its nodes. Beyond 100 nodes, only those that need attention are listed.",
        ),
    ] = []
    metadata: Annotated[ReadMetadata | None, Meta(description="Metadata read from the files of the model.")] = None
