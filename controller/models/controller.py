"""The controller of declared models: resolves, places and reports base models and caches."""

from controller.manager.controller import Controller
from controller.manager.watches import on
from controller.models.event_handlers import ModelEvents
from controller.models.reconcile import ModelReconciler
from controller.models.state_metrics import model_gauges
from controller.state.cluster_state import ClusterState
from controller.state.coalesce import by_nodes
from controller.state.keys import EntryKey, ModelKey
from controller.state.signal import Signal

_PROGRESS_S = 1.0


def models_controller(
    cluster: ClusterState, reconciler: ModelReconciler, progressed: Signal[str, EntryKey]
) -> Controller[ModelKey]:
    """Return the models controller; `progressed` carries the node and entry of each visible download step."""
    changed, events, soon = cluster.changed, ModelEvents(cluster), by_nodes(cluster)
    return Controller(
        name="models",
        key=ModelKey,
        all_keys=lambda: (*cluster.demands, *cluster.others),
        serves=lambda key: not cluster.is_read_from_claim(key),
        for_=(on(changed.model, events.of_model), on(changed.other, events.of_other)),
        watches=(
            on(changed.node, events.of_node, soon),
            on(changed.agent, events.of_agent, soon),
            on(changed.model_node, events.of_model_node, soon),
            on(changed.group, events.of_group),
            on(changed.user, events.of_user),
            on(changed.service, events.of_service),
            on(changed.crowded, events.of_crowded, soon),
            on(progressed, events.of_progress, lambda: _PROGRESS_S),
        ),
        reconcile=reconciler.reconcile,
        take_over=reconciler.take_over,
        stop=reconciler.stop,
        gauges=lambda: model_gauges(cluster),
    )
