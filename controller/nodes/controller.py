"""The controller of nodes, which maintains their ModelNodes."""

from controller.manager.controller import Controller
from controller.manager.watches import on
from controller.nodes.event_handlers import NodeEvents
from controller.nodes.keys import NodeKey
from controller.nodes.reconcile import NodeReconciler
from controller.nodes.state_metrics import node_gauges
from controller.state.cluster_state import ClusterState
from controller.state.coalesce import by_models
from controller.state.signal import Signal


def nodes_controller(
    cluster: ClusterState, reconciler: NodeReconciler, grant_changed: Signal[str]
) -> Controller[NodeKey]:
    """Return the nodes controller; `grant_changed` carries each node that gained or lost its download grant."""
    changed, events, soon = cluster.changed, NodeEvents(cluster), by_models(cluster)
    return Controller(
        name="nodes",
        key=NodeKey,
        all_keys=lambda: (NodeKey(n.metadata.name) for n in cluster.nodes),
        for_=(on(changed.node, events.of_node),),
        owns=(on(changed.model_node, events.of_model_node, soon),),
        watches=(
            on(changed.agent, events.of_agent),
            on(changed.group, events.of_group),
            on(changed.model, events.of_model, soon),
            on(changed.other, events.of_other, soon),
            on(changed.user, events.of_user),
            on(grant_changed, events.of_grant),
        ),
        reconcile=lambda key: reconciler.reconcile(key.name),
        gauges=lambda: node_gauges(cluster),
    )
