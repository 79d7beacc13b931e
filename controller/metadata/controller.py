"""The controller that reads the metadata of models on nodes; it shares its keys with the models controller."""

from controller.manager.controller import Controller
from controller.metadata.reconcile import MetadataReconciler
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey


def metadata_controller(cluster: ClusterState, reconciler: MetadataReconciler) -> Controller[ModelKey]:
    """Return the metadata controller; it is triggered like the models controller, and when a reading ends."""
    return Controller(
        name="metadata",
        key=ModelKey,
        all_keys=lambda: (),
        serves=lambda key: not cluster.models.is_read_from_claim(key),
        reconcile=reconciler.reconcile,
        stop=reconciler.reader.stop,
    )
