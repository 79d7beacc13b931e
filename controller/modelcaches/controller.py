"""The controller of ModelCaches."""

from collections.abc import Iterator

from controller.downloads.job import COMPONENT
from controller.jobs.observed_jobs import JobPod
from controller.manager.controller import Controller
from controller.manager.triggers import on_each
from controller.manager.watches import on
from controller.modelcaches.job import CACHE_ANNOTATION
from controller.modelcaches.keys import ModelCacheKey
from controller.modelcaches.reconcile import ModelCacheReconciler
from controller.state.cluster_state import ClusterState
from shared.api.core import PODS, Pod
from shared.api.model_cache import ModelCache
from shared.kube.objects import Key


def model_caches_controller(cluster: ClusterState, reconciler: ModelCacheReconciler) -> Controller[ModelCacheKey]:
    """Return the controller; claims, and the pods of downloads, trigger the cache that owns them."""
    pods = on_each(  # a cache whose pod is gone is requeued anyway
        PODS, JobPod, cache_of_pod, label_selector="=".join(COMPONENT), name="downloadpods"
    )
    return Controller(
        name="modelcaches",
        key=ModelCacheKey,
        all_keys=lambda: (ModelCacheKey(*cache.key) for cache in cluster.model_caches),
        for_=(on(cluster.changed.model_cache, _of_cache),),
        owns=(
            on(cluster.volumes.claim_changed, lambda claim: _on_claim(cluster, claim.key)),
            pods,
        ),
        watches=(on(cluster.changed.model_pod, lambda before, after: _on_user(cluster, before, after)),),
        reconcile=reconciler.reconcile,
        take_over=reconciler.take_over,
        stop=reconciler.stop,
    )


def _of_cache(before: ModelCache | None, after: ModelCache | None) -> Iterator[ModelCacheKey]:
    return (ModelCacheKey(*cache.key) for cache in (before, after) if cache is not None)


def _on_claim(cluster: ClusterState, claim: Key) -> Iterator[ModelCacheKey]:
    caches = cluster.model_caches_in(claim.namespace)
    return (ModelCacheKey(*cache.key) for cache in caches if claim.name in (cache.metadata.name, cache.status.claim))


def _on_user(cluster: ClusterState, before: Pod | None, after: Pod | None) -> Iterator[ModelCacheKey]:
    """Yield the deleted caches that a pod may have been the last to mount."""
    pod = after or before
    if pod is not None and pod.spec.claims:
        for cache in cluster.model_caches_in(pod.metadata.namespace):
            if cache.metadata.deletion_timestamp and cache.status.claim in pod.spec.claims:
                yield ModelCacheKey(*cache.key)


def cache_of_pod(pod: JobPod) -> Iterator[ModelCacheKey]:
    """Yield the cache that the pod of a download names in its namespace."""
    if name := pod.metadata.annotations.get(CACHE_ANNOTATION, ""):
        yield ModelCacheKey(pod.metadata.namespace, name)
