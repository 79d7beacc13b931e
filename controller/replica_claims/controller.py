"""The controller that creates claims for replicas."""

from collections.abc import Iterable

from controller.manager.controller import Controller
from controller.manager.watches import on
from controller.replica_claims.gate import CLAIMS_LABEL
from controller.replica_claims.keys import ReplicaPodKey
from controller.replica_claims.pods import ReplicaPods
from controller.replica_claims.reconcile import ReplicaPodReconciler
from controller.state.informer import Informer
from controller.state.signal import Signal
from shared.api.core import PODS, PersistentVolumeClaim, Pod


def replica_claims_controller(
    pods: ReplicaPods, claim_changed: Signal[PersistentVolumeClaim], reconciler: ReplicaPodReconciler
) -> Controller[ReplicaPodKey]:
    """Return the controller; creating or deleting a claim requeues the pods that mount it."""
    informer = Informer(PODS, Pod, pods, label_selector=f"{CLAIMS_LABEL}=true", name="replica_pods")

    def of_claim(claim: PersistentVolumeClaim) -> Iterable[ReplicaPodKey]:
        return (ReplicaPodKey(*pod) for pod in pods.of_claim(claim.key))

    return Controller(
        name="replica_claims",
        key=ReplicaPodKey,
        all_keys=lambda: (ReplicaPodKey(*pod) for pod in pods.known()),
        for_=(on(pods.changed, lambda pod: (ReplicaPodKey(*pod),), informer=informer),),
        owns=(on(claim_changed, of_claim),),
        reconcile=reconciler.reconcile,
        stop=reconciler.stop,
        gauges=reconciler.metrics.gauges,
    )
