"""Which models on claims are triggered by their claims, the pods of their Jobs, and their users."""

from collections.abc import Iterator

from controller.claims.job import MODEL_ANNOTATION, model_key
from controller.claims.kinds import JobPod
from controller.placement.claim_place import is_on, place_of
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from shared.api.core import Pod
from shared.kube.objects import Key
from shared.names import uses_label


def on_claims_of(cluster: ClusterState, before: Pod | None, after: Pod | None) -> Iterator[ModelKey]:
    """Yield the models on claims that a pod uses: one may be waiting for its volume."""
    used = {label for pod in (before, after) if pod is not None for label in pod.metadata.labels}
    on_claims = ((key, demand) for key, demand in cluster.models.demands.items() if demand.on_claim)
    return (key for key, demand in on_claims if uses_label(demand.id) in used)


def models_on(cluster: ClusterState, claim: Key) -> Iterator[ModelKey]:
    """Yield the models on a claim."""
    return (key for key, demand in list(cluster.models.demands.items()) if is_on(demand, claim.namespace, claim.name))


def model_of_job_pod(cluster: ClusterState, pod: JobPod) -> Iterator[ModelKey]:
    """Yield the model that a pod names, if its claim is in the namespace of the pod: anyone can create such pods."""
    key = model_key(pod.metadata.annotations.get(MODEL_ANNOTATION, ""))
    demand = cluster.models.demands.get(key) if key else None
    if key is None or demand is None or not demand.on_claim:
        return
    if place_of(demand.uri, demand.namespace).namespace == pod.metadata.namespace:
        yield key
