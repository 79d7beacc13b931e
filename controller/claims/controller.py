"""The controller of models on claims: checked in place, read by a Job, never downloaded by a node."""

from functools import partial

from controller.claims.job import COMPONENT
from controller.claims.kinds import JobPod
from controller.claims.reconcile import ClaimReconciler
from controller.claims.triggers import model_of_job_pod, models_on, on_claims_of
from controller.manager.controller import Controller
from controller.manager.triggers import on_each
from controller.manager.watches import coalesced, on
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from shared.api.core import PODS


def claims_controller(cluster: ClusterState, reconciler: ClaimReconciler) -> Controller[ModelKey]:
    """Return the claims controller; changes of the model itself trigger it as they do for any model."""
    job_pods = on_each(  # a model whose pod is gone is requeued anyway
        PODS, JobPod, partial(model_of_job_pod, cluster), label_selector="=".join(COMPONENT), name="jobpods"
    )
    return Controller(
        name="claims",
        key=ModelKey,
        all_keys=lambda: (),
        serves=cluster.models.is_read_from_claim,
        owns=(job_pods,),
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
