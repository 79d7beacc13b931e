"""The controller of models on claims: checked in place, read by a Job, never downloaded by a node."""

from controller.claims.job import COMPONENT
from controller.claims.kinds import JobPod
from controller.claims.reconcile import ClaimReconciler
from controller.claims.triggers import JobPodTrigger, models_on, on_claims_of
from controller.manager.controller import Controller
from controller.manager.watches import coalesced, itself, on
from controller.state.cluster_state import ClusterState
from controller.state.informer import Informer
from controller.state.keys import ModelKey
from controller.state.signal import Signal
from shared.api.core import PODS


def claims_controller(cluster: ClusterState, reconciler: ClaimReconciler) -> Controller[ModelKey]:
    """Return the claims controller; changes of the model itself trigger it as they do for any model."""
    job_pod_changed = Signal[ModelKey]()
    job_pods = Informer(
        PODS,
        JobPod,
        JobPodTrigger(cluster, job_pod_changed.emit),
        label_selector="=".join(COMPONENT),
        name="jobpods",
        waited_for=False,
    )
    return Controller(
        name="claims",
        key=ModelKey,
        all_keys=lambda: (),
        serves=cluster.models.is_read_from_claim,
        owns=(on(job_pod_changed, itself, informer=job_pods),),
        watches=(
            on(cluster.volumes.claim_changed, lambda claim: models_on(cluster, claim.key)),
            on(
                cluster.changed.user,
                lambda before, after: on_claims_of(cluster, before, after),
                coalesced(cluster.nodes),
            ),
        ),
        reconcile=reconciler.reconcile,
    )
