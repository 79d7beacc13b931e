"""ModelCacheNodeGroup (`serving.kserve.io/v1alpha1`): nodes that share a storage limit and throttles."""

from typing import Annotated

from msgspec import Meta

from shared.api.meta import Api, Conditions, Labels, NodeNames, Quantity, RawObject
from shared.kube.objects import Object

GROUP = "serving.kserve.io"
VERSION = "v1alpha1"


class ModelCacheNodeGroupSpec(Api, frozen=True, kw_only=True):
    """Which nodes belong to the group, and what each of them may use."""

    storage_limit: Quantity
    node_selector: Labels = {}
    node_affinity: RawObject = {}
    bandwidth_limit: Annotated[Quantity | None, Meta(description="Bytes a second that one node downloads at most.")] = (
        None
    )
    max_concurrent_nodes: Annotated[
        int, Meta(ge=0, description="How many nodes of the group download at one time, all models together; 0: all.")
    ] = 0


class ModelCacheNodeGroupStatus(Api, frozen=True, kw_only=True):
    """The members, and what they have used and left of the limit, in bytes, all nodes together."""

    conditions: Conditions = []
    observed_generation: int = 0
    node_count: int = 0
    nodes: NodeNames = []
    used: int = 0
    available: int = 0


class ModelCacheNodeGroup(Object, frozen=True, kw_only=True):
    """Nodes that share a storage limit and throttles."""

    spec: ModelCacheNodeGroupSpec
    status: ModelCacheNodeGroupStatus = ModelCacheNodeGroupStatus()
