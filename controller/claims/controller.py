"""The controller of models on claims: checked in place, read by a Job, never downloaded by a node."""

from collections.abc import Iterator
from functools import partial

from controller.claims.job import COMPONENT, MODEL_ANNOTATION, model_key
from controller.claims.reconcile import ClaimReconciler
from controller.jobs.observed_jobs import JobPod
from controller.manager.controller import Controller
from controller.manager.triggers import on_each
from controller.manager.watches import coalescing_delay, on
from controller.placement.claim_place import is_on, place_of
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from shared.api.core import PODS, Pod
from shared.kube.objects import Key
from shared.names import uses_label


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
                cluster.changed.model_pod,
                lambda before, after: models_on_claims_of(cluster, before, after),
                coalescing_delay(cluster.nodes),
            ),
        ),
        reconcile=reconciler.reconcile,
    )


def models_on_claims_of(cluster: ClusterState, before: Pod | None, after: Pod | None) -> Iterator[ModelKey]:
    """Yield the models on claims that a pod uses; their status lists the pods that wait for the volume."""
    used = {label for pod in (before, after) if pod is not None for label in pod.metadata.labels}
    on_claims = ((key, demand) for key, demand in cluster.models.demands.items() if demand.on_claim)
    return (key for key, demand in on_claims if uses_label(demand.id) in used)


def models_on(cluster: ClusterState, claim: Key) -> Iterator[ModelKey]:
    """Yield the models on a claim."""
    return (key for key, demand in list(cluster.models.demands.items()) if is_on(demand, claim.namespace, claim.name))


def model_of_job_pod(cluster: ClusterState, pod: JobPod) -> Iterator[ModelKey]:
    """Yield the model that a pod names, but only if its claim is in the pod's namespace. The name is untrusted."""
    key = model_key(pod.metadata.annotations.get(MODEL_ANNOTATION, ""))
    demand = cluster.models.demands.get(key) if key else None
    if key is None or demand is None or not demand.on_claim:
        return
    if place_of(demand.uri, demand.namespace).namespace == pod.metadata.namespace:
        yield key
