"""ModelCacheNodeGroup (`serving.kserve.io/v1alpha1`): nodes that share a storage limit and throttles."""

from typing import Annotated, Literal

from msgspec import Meta

from shared.api.meta import ApiStruct, Conditions, Labels, NodeNames, Quantity, RawObject
from shared.kube.objects import Object

GROUP = "serving.kserve.io"
VERSION = "v1alpha1"
EvictionPolicy = Literal["Never", "LeastRecentlyUsed"]
NEVER: EvictionPolicy = "Never"
LEAST_RECENTLY_USED: EvictionPolicy = "LeastRecentlyUsed"


class ModelCacheNodeGroupSpec(ApiStruct, frozen=True, kw_only=True):
    """Which nodes belong to the group, and what each of them may use."""

    storage_limit: Annotated[
        Quantity, Meta(description="Bytes that the models of one node may take; the smallest of all its groups counts.")
    ]
    node_selector: Annotated[Labels, Meta(description="Labels of the nodes that belong to the group.")] = {}
    node_affinity: Annotated[
        RawObject, Meta(description="A v1.NodeAffinity that they must fit as well; preferences do not count.")
    ] = {}
    bandwidth_limit: Annotated[Quantity | None, Meta(description="Bytes a second that one node downloads at most.")] = (
        None
    )
    max_concurrent_nodes: Annotated[
        int, Meta(ge=0, description="How many nodes of the group download at one time, all models together; 0: all.")
    ] = 0
    eviction_policy: Annotated[
        EvictionPolicy,
        Meta(
            description="Whether unused models may go to make room for others; only where all groups of a node agree."
        ),
    ] = NEVER


class ModelCacheNodeGroupStatus(ApiStruct, frozen=True, kw_only=True):
    """The members, and what they have used and left of the limit, in bytes, all nodes together."""

    conditions: Conditions = []
    observed_generation: Annotated[int, Meta(description="The generation that the status tells of.")] = 0
    node_count: Annotated[int, Meta(description="How many nodes belong to the group.")] = 0
    nodes: Annotated[NodeNames, Meta(description="Their names, up to 100.")] = []
    used: Annotated[int, Meta(description="Bytes that their stores take.")] = 0
    available: Annotated[int, Meta(description="Bytes that are left under their limits.")] = 0
    printed_limit: Annotated[str, Meta(max_length=32, description="The limit for the printed table.")] = ""
    printed_used: Annotated[str, Meta(max_length=32, description="The same of what is used.")] = ""
    printed_available: Annotated[str, Meta(max_length=32, description="The same of what is left.")] = ""


class ModelCacheNodeGroup(Object, frozen=True, kw_only=True):
    """Nodes that share a storage limit and throttles."""

    spec: ModelCacheNodeGroupSpec
    status: ModelCacheNodeGroupStatus = ModelCacheNodeGroupStatus()
