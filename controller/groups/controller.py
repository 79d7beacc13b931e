"""The controllers of node groups: their status, and which of their nodes may download now."""

from controller.groups.event_handlers import GrantsEventHandler, GroupEventHandler
from controller.groups.grants import GrantsReconciler
from controller.groups.keys import GrantsKey, GroupKey
from controller.groups.reconcile import GroupReconciler
from controller.manager.controller import Controller
from controller.manager.state_metrics import gauge
from controller.manager.watches import coalescing_delay, on
from controller.state.cluster_state import ClusterState

_IN_USE = "Nodes that hold a grant to download."


def groups_controller(cluster: ClusterState, reconciler: GroupReconciler) -> Controller[GroupKey]:
    """Return the controller that maintains the status of node groups."""
    changed, handler, delay = cluster.changed, GroupEventHandler(cluster), coalescing_delay(cluster.nodes)
    return Controller(
        name="groups",
        key=GroupKey,
        all_keys=lambda: (GroupKey(g.metadata.name) for g in cluster.groups),
        for_=(on(changed.group, handler.of_group),),
        watches=(on(changed.node, handler.of_node, delay), on(changed.model_node, handler.of_model_node, delay)),
        reconcile=lambda key: reconciler.reconcile(key.name),
    )


def grants_controller(cluster: ClusterState, reconciler: GrantsReconciler) -> Controller[GrantsKey]:
    """Return the controller that grants downloads.

    A new leader grants nothing before it has read back what the previous one granted.
    """
    changed, handler = cluster.changed, GrantsEventHandler(cluster)

    async def take_over() -> None:
        await reconciler.take_over()
        await reconciler.reconcile()  # before any node is reconciled

    return Controller(
        name="grants",
        key=GrantsKey,
        all_keys=lambda: (GrantsKey(),),
        for_=(on(changed.group, handler.of_any),),
        watches=(
            on(changed.node, handler.of_any),
            on(changed.agent, handler.of_agent),
            on(changed.model_node, handler.of_model_node),
        ),
        reconcile=lambda _: reconciler.reconcile(),
        take_over=take_over,
        gauges=lambda: (gauge("larder_grants_in_use", _IN_USE, len(reconciler.granted)),),
    )
