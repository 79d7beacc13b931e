"""What the kinds have in common."""

from collections.abc import Iterable
from typing import Annotated, Any, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from shared import quantity

Json = dict[str, Any]
RECONCILING, STALLED = ABNORMAL = ("Reconciling", "Stalled")  # as kstatus has them: there only while they are True


class ApiStruct(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True, kw_only=True):
    """A part of an object, in the API's spelling."""


class Condition(ApiStruct, frozen=True, kw_only=True, omit_defaults=False):
    """One observation of an object, as in metav1.Condition."""

    type: Annotated[str, Meta(max_length=316)]
    status: Annotated[str, Meta(pattern="^(True|False|Unknown)$")]
    reason: Annotated[str, Meta(max_length=1024)]
    message: Annotated[str, Meta(max_length=32768)] = ""
    last_transition_time: str
    observed_generation: int | UnsetType = UNSET  # others may leave it out; ours always have it


class _Told(Protocol):
    """A condition, or as much of one as is read."""

    @property
    def type(self) -> str: ...

    @property
    def status(self) -> str: ...


_C = TypeVar("_C", bound=_Told)


def condition_of(conditions: Iterable[_C], kind: str) -> _C | None:
    """Return the condition of a type, or None."""
    return next((c for c in conditions if c.type == kind), None)


def holds(conditions: Iterable[_Told], kind: str, status: str = "True") -> bool:
    """Return whether the condition of a type is there and True, or of another status."""
    return any(c.type == kind and c.status == status for c in conditions)


Quantity = Annotated[int | str, Meta(extra_json_schema={"x-larder-quantity": quantity.PATTERN})]
StorageUri = Annotated[str, Meta(min_length=1, max_length=2048)]
Name = Annotated[str, Meta(max_length=253)]
Conditions = Annotated[
    list[Condition],
    Meta(max_length=32, extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
]
Labels = Annotated[dict[str, Annotated[str, Meta(max_length=63)]], Meta(max_length=100)]
RawObject = Annotated[dict[str, Any], Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True})]
Patterns = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=512)]],
    Meta(max_length=100, extra_json_schema={"x-kubernetes-list-type": "atomic"}),
]
NodeNames = Annotated[list[Annotated[str, Meta(max_length=253)]], Meta(max_length=10000)]


class NodeState(ApiStruct, frozen=True, kw_only=True):
    """Where one node stands with a model, for people: only nodes that need attention once there are very many."""

    name: Annotated[Name, Meta(description="The node.")]
    phase: Annotated[str, Meta(max_length=63, description="Where it stands; NotReady where the node itself is not.")]
    percent: Annotated[int, Meta(ge=0, le=100, description="How much of the download is done, in steps of five.")] = 0
    reason: Annotated[str, Meta(max_length=63, description="Why it does not go on, in a stable word.")] = ""
    message: Annotated[str, Meta(max_length=2048, description="The same with numbers and the way out.")] = ""
    revision: Annotated[str, Meta(max_length=128, description="The revision that this is about.")] = ""
    revisions: Annotated[
        list[Annotated[str, Meta(max_length=128)]],
        Meta(
            max_length=8,
            description="The revisions of the model that are complete on the node.",
            extra_json_schema={"x-kubernetes-list-type": "atomic"},
        ),
    ] = []


class LeftOut(ApiStruct, frozen=True, kw_only=True):
    """The files of the source that nodes do not fetch, because of patterns or as second copies."""

    files: Annotated[int, Meta(description="How many.")] = 0
    size: Annotated[int, Meta(description="Their bytes, which every node saves.")] = 0
    duplicate_size: Annotated[int, Meta(description="The bytes of second copies of the same weights among them.")] = 0
    names: Annotated[
        list[Annotated[str, Meta(max_length=256)]],
        Meta(max_length=20, description="The largest of them.", extra_json_schema={"x-kubernetes-list-type": "atomic"}),
    ] = []


class ReadMetadata(ApiStruct, frozen=True, kw_only=True):
    """What was read of a model's files, kept so that they are read once."""

    identity: Annotated[
        str, Meta(max_length=64, description="Digest of what was read: claim and sub-path, or the list of files.")
    ] = ""
    time: Annotated[str, Meta(max_length=32, description="When it was read.")] = ""
    attempts: Annotated[int, Meta(description="How often it was tried.")] = 0
    node: Annotated[
        Name, Meta(description="The node that read it in what it unpacked; empty: read from the source, or by a Job.")
    ] = ""
    missing: Annotated[bool, Meta(description="There is nothing that pods could mount at the sub-path.")] = False
    unchecked: Annotated[
        bool, Meta(description="Nobody could look whether there is anything at the sub-path; pods wait until then.")
    ] = False
    reason: Annotated[str, Meta(max_length=63, description="Why it could not be read, in a stable word.")] = ""
    message: Annotated[str, Meta(max_length=2048, description="The same with the way out.")] = ""
    parameters_estimated: Annotated[
        bool, Meta(description="The number of parameters is an estimate, by the size of the weights and their type.")
    ] = False
    values: Annotated[RawObject, Meta(description="What `larder inspect -o json` would show.")] = {}


class StockStatus(ApiStruct, frozen=True, kw_only=True):
    """What Larder reports of a model, whichever kind declares it.

    `nodes_total` counts the target nodes, those that are not Ready included; `resolved_revision` is the commit or the
    digest that all nodes fetch, `serving_revision` the one that new pods get.
    """

    conditions: Conditions = []
    observed_generation: Annotated[int, Meta(description="The generation that the status tells of.")] = 0
    source: Annotated[str, Meta(max_length=2048, description="The URI that was resolved.")] = ""
    resolved_revision: Annotated[
        str, Meta(max_length=128, description="The commit or digest that all nodes fetch.")
    ] = ""
    serving_revision: Annotated[str, Meta(max_length=128, description="The revision that new pods get.")] = ""
    upstream_revision: Annotated[
        str, Meta(max_length=128, description="What the source had when it was last looked at.")
    ] = ""
    resolution_number: Annotated[
        int, Meta(description="Of objects that share a model, the revision with the highest number counts for all.")
    ] = 0
    refreshed: Annotated[
        str, Meta(max_length=1024, description="The value of larder.dev/refresh that was last answered.")
    ] = ""
    manifest_digest: Annotated[
        str, Meta(max_length=64, description="SHA-256 of the list of files; names the ConfigMap that has it.")
    ] = ""
    size: Annotated[int, Meta(description="Bytes of one copy.")] = 0
    printed_size: Annotated[str, Meta(max_length=32, description="The same for the printed table.")] = ""
    files: Annotated[int, Meta(description="How many files the model has.")] = 0
    selection: Annotated[
        str, Meta(max_length=63, description="Which choice of files was resolved; empty for the whole source.")
    ] = ""
    left_out: LeftOut | None = None
    nodes_total: Annotated[
        int, Meta(description="How many nodes shall hold it, those that are not Ready included.")
    ] = 0
    nodes_ready_count: Annotated[int, Meta(description="How many have it.")] = 0
    nodes_failed_count: Annotated[int, Meta(description="How many failed to get it.")] = 0
    ready: Annotated[str, Meta(max_length=32, description="Ready of all target nodes, for the printed table.")] = ""
    node_status: Annotated[
        dict[str, Annotated[str, Meta(max_length=63)]],
        Meta(max_length=10000, description="The phase of each target node."),
    ] = {}
    nodes: Annotated[list[NodeState], Meta(max_length=100, extra_json_schema={"x-kubernetes-list-type": "atomic"})] = []
    metadata: Annotated[ReadMetadata | None, Meta(description="What was read of the model's files.")] = None
