"""The controller of declared models: resolves, places and reports base models and caches."""

from controller.manager.controller import Controller
from controller.manager.watches import coalescing_delay, on
from controller.models.event_handlers import ModelEventHandler
from controller.models.reconcile import ModelReconciler
from controller.models.state_metrics import model_gauges
from controller.state.cluster_state import ClusterState
from controller.state.keys import EntryKey, ModelKey
from controller.state.signal import Signal

_PROGRESS_S = 1.0


def models_controller(
    cluster: ClusterState, reconciler: ModelReconciler, progressed: Signal[str, EntryKey]
) -> Controller[ModelKey]:
    """Return the models controller; `progressed` carries the node and entry of each visible download step."""
    changed, handler, delay = cluster.changed, ModelEventHandler(cluster), coalescing_delay(cluster.nodes)
    return Controller(
        name="models",
        key=ModelKey,
        all_keys=lambda: (*cluster.models.demands, *cluster.models.unmanaged),
        serves=lambda key: not cluster.models.is_read_from_claim(key),
        for_=(on(changed.model, handler.of_model), on(changed.unmanaged, handler.of_unmanaged)),
        watches=(
            on(changed.node, handler.of_node, delay),
            on(changed.agent, handler.of_agent, delay),
            on(changed.model_node, handler.of_model_node, delay),
            on(changed.group, handler.of_group),
            on(changed.model_pod, handler.of_model_pod),
            on(changed.inference_service, handler.of_inference_service),
            on(changed.unplaced, handler.of_unplaced, delay),
            on(progressed, handler.of_progress, lambda: _PROGRESS_S),
        ),
        reconcile=reconciler.reconcile,
        take_over=reconciler.take_over,
        stop=reconciler.stop,
        gauges=lambda: model_gauges(cluster),
    )
