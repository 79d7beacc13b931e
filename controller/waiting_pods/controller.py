"""The controller of pods that wait for their models."""

from controller.manager.controller import Controller
from controller.manager.watches import coalescing_delay, on
from controller.state.cluster_state import ClusterState
from controller.waiting_pods.event_handlers import WaitingPodsEventHandler
from controller.waiting_pods.keys import WaitingKey, waiting_key
from controller.waiting_pods.reconcile import WaitingPodsReconciler


def waiting_pods_controller(cluster: ClusterState, reconciler: WaitingPodsReconciler) -> Controller[WaitingKey]:
    """Return the controller; a node that gains files requeues only the pods that wait for these."""
    changed, handler, delay = cluster.changed, WaitingPodsEventHandler(cluster), coalescing_delay(cluster.nodes)
    return Controller(
        name="waiting_pods",
        key=WaitingKey,
        all_keys=lambda: (waiting_key(*use) for use in cluster.waiting_pods.uses()),
        for_=(on(cluster.waiting_pods.changed, lambda *use: (waiting_key(*use),)),),
        watches=(
            on(changed.snapshot_labels, handler.of_snapshot_labels, delay),
            on(changed.model_node, handler.of_model_node, delay),
            on(changed.node, handler.of_node),
            on(changed.model, handler.of_model),
        ),
        reconcile=reconciler.reconcile,
        stop=reconciler.stop,
        gauges=reconciler.metrics.gauges,
    )
