"""What the kinds have in common."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shared import quantity

Json = dict[str, Any]


class Api(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True, kw_only=True):
    """A part of an object, in the API's spelling."""


class Condition(Api, frozen=True, kw_only=True, omit_defaults=False):
    """One observation of an object, as in metav1.Condition."""

    type: Annotated[str, Meta(max_length=316)]
    status: Annotated[str, Meta(pattern="^(True|False|Unknown)$")]
    reason: Annotated[str, Meta(max_length=1024)]
    message: Annotated[str, Meta(max_length=32768)] = ""
    last_transition_time: str
    observed_generation: int = 0


Quantity = Annotated[int | str, Meta(extra_json_schema={"x-larder-quantity": quantity.PATTERN})]
StorageUri = Annotated[str, Meta(min_length=1, max_length=2048)]
Name = Annotated[str, Meta(max_length=253)]
Conditions = Annotated[
    list[Condition],
    Meta(max_length=32, extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
]
Labels = Annotated[dict[str, Annotated[str, Meta(max_length=63)]], Meta(max_length=100)]
RawObject = Annotated[dict[str, Any], Meta(extra_json_schema={"x-kubernetes-preserve-unknown-fields": True})]
NodeNames = Annotated[list[Annotated[str, Meta(max_length=253)]], Meta(max_length=10000)]


class NodeState(Api, frozen=True, kw_only=True):
    """Where one node stands with a model, for people: only nodes that need attention once there are very many."""

    name: Name
    phase: Annotated[str, Meta(max_length=63)]
    percent: Annotated[int, Meta(ge=0, le=100)] = 0
    reason: Annotated[str, Meta(max_length=63)] = ""
    message: Annotated[str, Meta(max_length=2048)] = ""
    revision: Annotated[str, Meta(max_length=128)] = ""


class StockStatus(Api, frozen=True, kw_only=True):
    """What Larder reports of a model, whichever kind declares it.

    `nodes_total` counts the target nodes, those that are not Ready included; `resolved_revision` is the commit or the
    digest that all nodes fetch, `serving_revision` the one that new pods get.
    """

    conditions: Conditions = []
    observed_generation: int = 0
    source: Annotated[str, Meta(max_length=2048, description="The URI that was resolved.")] = ""
    resolved_revision: Annotated[str, Meta(max_length=128)] = ""
    serving_revision: Annotated[str, Meta(max_length=128)] = ""
    manifest_digest: Annotated[str, Meta(max_length=64)] = ""
    size: Annotated[int, Meta(description="Bytes of one copy.")] = 0
    files: int = 0
    nodes_total: int = 0
    nodes_ready_count: int = 0
    nodes_failed_count: int = 0
    ready: Annotated[str, Meta(max_length=32, description="Ready of all target nodes, for the printed table.")] = ""
    node_status: Annotated[
        dict[str, Annotated[str, Meta(max_length=63)]],
        Meta(max_length=10000, description="The phase of each target node."),
    ] = {}
    nodes: Annotated[list[NodeState], Meta(max_length=100, extra_json_schema={"x-kubernetes-list-type": "atomic"})] = []
