"""What models on nodes are, read from their sources: a second part of each turn of a model."""

from controller.manager.controller import Controller
from controller.metadata.reconcile import MetadataReconciler
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey


def metadata_controller(cluster: ClusterState, reconciler: MetadataReconciler) -> Controller[ModelKey]:
    """Return what reads metadata. Whatever wakes a model wakes this; besides, a reading that ends does."""
    return Controller(
        name="metadata",
        key=ModelKey,
        all_keys=lambda: (),
        serves=lambda key: not cluster.is_read_from_claim(key),
        reconcile=reconciler.reconcile,
        stop=reconciler.reader.stop,
    )
