"""The last look before files are removed: does the API server itself still say so?"""

import msgspec

from agent.stock.actions import Remove
from shared.api.model_node import PATH, EntryState, ModelNode
from shared.kube.errors import Malformed
from shared.kube.transport import Kube


async def is_still_wished(kube: Kube, name: str, node_uid: str, action: Remove) -> bool:
    """Tell whether a live read shows the very ModelNode and generation that was acted on. Raises KubeError."""
    try:
        live = msgspec.json.decode(await kube.request("GET", f"{PATH}/{name}"), type=ModelNode)
    except msgspec.MsgspecError as error:
        raise Malformed(f"the own ModelNode could not be read: {error}") from error
    return is_same_wish(live, node_uid, action)


def is_same_wish(live: ModelNode, node_uid: str, action: Remove) -> bool:
    """Tell whether this ModelNode is the one that was acted on, for this node, and still says Absent."""
    same = live.metadata.uid == action.uid and live.metadata.generation == action.generation
    ours = bool(node_uid) and live.spec.node_uid == node_uid
    says = [e.state for e in live.spec.entries if e.key == action.entry.key]
    return same and ours and says == [EntryState.ABSENT]
