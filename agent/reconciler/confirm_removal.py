"""The last check before files are removed: a live read from the API server."""

from agent.reconciler.actions import Remove
from agent.reconciler.node import OwnNode
from shared.api.model_node import PATH, EntryState, ModelNode
from shared.errors import NotGranted
from shared.kube.collection import get_object
from shared.names import snapshot_label


async def confirm_removal(node: OwnNode, node_uid: str, action: Remove) -> None:
    """Read the ModelNode and the Node live and check that the removal is still wanted.

    Raises:
        NotGranted: Either of them has changed since the decision.
        KubeError: One of them could not be read.
    """
    live = await get_object(node.kube, f"{PATH}/{node.name}", ModelNode)
    if live is None or not is_same_wish(live, node_uid, action):
        raise NotGranted("the ModelNode has changed since it was read; nothing is removed")
    view = await node.read()
    if view.uid != node_uid or snapshot_label(*action.entry.key) in view.labels:
        raise NotGranted("the Node is another one, or still carries the snapshot's label; nothing is removed")


def is_same_wish(live: ModelNode, node_uid: str, action: Remove) -> bool:
    """Tell whether this is the ModelNode that was acted on, for this node, and still asks for Absent."""
    same = live.metadata.uid == action.uid and live.metadata.generation == action.generation
    ours = bool(node_uid) and live.spec.node_uid == node_uid
    says = [e.state for e in live.spec.entries if e.key == action.entry.key]
    return same and ours and says == [EntryState.ABSENT]
