"""Triggers models on claims by their claims, their Jobs' pods, and their users; nothing is cached."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from controller.claims.job import MODEL_ANNOTATION, model_key
from controller.claims.kinds import JobPod
from controller.placement.claim_place import is_on, place_of
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from shared.api.core import Pod
from shared.kube.objects import Key
from shared.names import uses_label

Enqueue = Callable[[ModelKey], None]


def on_claims_of(cluster: ClusterState, before: Pod | None, after: Pod | None) -> Iterator[ModelKey]:
    """Yield the models on claims that a pod uses: one may be waiting for its volume."""
    used = {label for pod in (before, after) if pod is not None for label in pod.metadata.labels}
    on_claims = ((key, demand) for key, demand in cluster.models.demands.items() if demand.on_claim)
    return (key for key, demand in on_claims if uses_label(demand.id) in used)


def models_on(cluster: ClusterState, claim: Key) -> Iterator[ModelKey]:
    """Yield the models on a claim."""
    return (key for key, demand in list(cluster.models.demands.items()) if is_on(demand, claim.namespace, claim.name))


@dataclass(frozen=True, slots=True)
class JobPodTrigger:
    """A sink for the pods of metadata Jobs, which triggers the model that a changed pod reads."""

    cluster: ClusterState
    enqueue: Enqueue

    def replace(self, objects: Sequence[JobPod], unreadable: Collection[Key] = ()) -> None:
        """Trigger the models of all pods; a model whose pod is gone is requeued anyway."""
        del unreadable
        for obj in objects:
            self.upsert(obj)

    def upsert(self, obj: JobPod) -> None:
        """Trigger the model that the pod names if its claim is in the pod's namespace: anyone can create such pods."""
        key = model_key(obj.metadata.annotations.get(MODEL_ANNOTATION, ""))
        demand = self.cluster.models.demands.get(key) if key else None
        if key is None or demand is None or not demand.on_claim:
            return
        if place_of(demand.uri, demand.namespace).namespace == obj.metadata.namespace:
            self.enqueue(key)

    def remove(self, key: Key) -> None:
        """Do nothing: the pod's report was available before the pod was deleted."""
