"""ModelCacheNodeGroup (`serving.kserve.io/v1alpha1`): nodes that share a storage limit and throttles."""

from typing import Annotated, Literal

from msgspec import Meta
from msgspec.structs import force_setattr

from shared.api.meta import ApiStruct, Conditions, Labels, NodeNames, Quantity, RawObject
from shared.api.node_affinity import readable
from shared.kube.objects import Object

GROUP = "serving.kserve.io"
VERSION = "v1alpha1"
EvictionPolicy = Literal["Never", "LeastRecentlyUsed"]
NEVER: EvictionPolicy = "Never"
LEAST_RECENTLY_USED: EvictionPolicy = "LeastRecentlyUsed"


class ModelCacheNodeGroupSpec(ApiStruct, frozen=True, kw_only=True):
    """The desired state of a node group: its nodes, and the limits of each of them."""

    storage_limit: Annotated[
        Quantity,
        Meta(
            description="Limits the disk space, in bytes, that models may use on each node. A node in several "
            "groups gets the smallest of their limits."
        ),
    ]
    node_selector: Annotated[Labels, Meta(description="Labels that a node must have to belong to the group.")] = {}
    node_affinity: Annotated[
        RawObject, Meta(description="A v1.NodeAffinity that a node must also satisfy. Preferred terms are ignored.")
    ] = {}
    bandwidth_limit: Annotated[
        Quantity | None, Meta(description="Limits the download rate of each node, in bytes per second.")
    ] = None
    max_concurrent_nodes: Annotated[
        int,
        Meta(
            ge=0,
            description="Limits the number of nodes in the group that download at the same time, across all "
            "models. Defaults to 0, which means no limit.",
        ),
    ] = 0
    eviction_policy: Annotated[
        EvictionPolicy,
        Meta(
            description="Whether unused models may be evicted to make room for others. If a node is in several "
            "groups, eviction happens only if all of them allow it. Defaults to `Never`."
        ),
    ] = NEVER

    def __post_init__(self) -> None:
        """Replace a node affinity of the wrong shape."""
        force_setattr(self, "node_affinity", readable(self.node_affinity))


class ModelCacheNodeGroupStatus(ApiStruct, frozen=True, kw_only=True):
    """The observed state of a node group. Sizes are totals over all nodes, in bytes."""

    conditions: Conditions = []
    observed_generation: Annotated[int, Meta(description="Generation of the object that this status describes.")] = 0
    node_count: Annotated[int, Meta(description="Number of nodes in the group.")] = 0
    nodes: Annotated[NodeNames, Meta(description="Names of the nodes in the group, up to 100.")] = []
    used: Annotated[int, Meta(description="Bytes used by the models on these nodes.")] = 0
    available: Annotated[
        int, Meta(description="Bytes still available to models on these nodes under their limits.")
    ] = 0
    printed_limit: Annotated[
        str, Meta(max_length=32, description="The limit in a human-readable unit, as printed by kubectl.")
    ] = ""
    printed_used: Annotated[
        str, Meta(max_length=32, description="`used` in a human-readable unit, as printed by kubectl.")
    ] = ""
    printed_available: Annotated[
        str, Meta(max_length=32, description="`available` in a human-readable unit, as printed by kubectl.")
    ] = ""


class ModelCacheNodeGroup(Object, frozen=True, kw_only=True):
    """Nodes that share a storage limit and throttles."""

    spec: ModelCacheNodeGroupSpec
    status: ModelCacheNodeGroupStatus = ModelCacheNodeGroupStatus()
