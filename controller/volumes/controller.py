"""The controller of the volumes and claims through which pods mount models."""

from controller.manager.controller import Controller
from controller.manager.watches import on
from controller.state.cluster_state import ClusterState
from controller.volumes.keys import VolumeKey
from controller.volumes.reconcile import VolumeReconciler


def volumes_controller(cluster: ClusterState, reconciler: VolumeReconciler) -> Controller[VolumeKey]:
    """Return the controller; pods, claims and volumes trigger it through the one signal of their claim."""
    return Controller(
        name="volumes",
        key=VolumeKey,
        all_keys=lambda: (VolumeKey(*claim) for claim in cluster.volumes.known_claims()),
        owns=(on(cluster.volumes.changed, lambda claim: (VolumeKey(*claim),)),),
        reconcile=reconciler.reconcile,
        stop=reconciler.stop,
        gauges=reconciler.creations.provisioner.gauges,
    )
