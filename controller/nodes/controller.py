"""The controller of nodes, which maintains their ModelNodes."""

from controller.manager.controller import Controller
from controller.manager.watches import coalescing_delay, on
from controller.nodes.event_handlers import NodeEventHandler
from controller.nodes.keys import NodeKey
from controller.nodes.reconcile import NodeReconciler
from controller.nodes.state_metrics import node_gauges
from controller.state.cluster_state import ClusterState
from controller.state.signal import Signal


def nodes_controller(
    cluster: ClusterState, reconciler: NodeReconciler, grant_changed: Signal[str]
) -> Controller[NodeKey]:
    """Return the nodes controller; `grant_changed` carries each node that gained or lost its download grant."""
    changed, handler, delay = cluster.changed, NodeEventHandler(cluster), coalescing_delay(cluster.models.demands)
    return Controller(
        name="nodes",
        key=NodeKey,
        all_keys=lambda: (NodeKey(n.metadata.name) for n in cluster.nodes),
        for_=(on(changed.node, handler.of_node),),
        owns=(on(changed.model_node, handler.of_model_node, delay),),
        watches=(
            on(changed.agent, handler.of_agent),
            on(changed.group, handler.of_group),
            on(changed.model, handler.of_model, delay),
            on(changed.unmanaged, handler.of_unmanaged, delay),
            on(changed.model_pod, handler.of_model_pod),
            on(changed.resource_claim_node, handler.of_resource_claim_node),
            on(cluster.volumes.changed, handler.of_claim),
            on(grant_changed, handler.of_grant),
        ),
        reconcile=lambda key: reconciler.reconcile(key.name),
        gauges=lambda: node_gauges(cluster),
    )
