"""Which KServe service a pod belongs to, by its labels. No input or output, no clock."""

from dataclasses import dataclass

from controller.admission.pods.pod_annotations import ENABLE_CACHE, KSERVE_LABEL, NOT_CACHED
from controller.inferenceservices.kserve import KSERVE_PATHS
from controller.uncached_services.keys import UncachedServiceKey
from shared.api.core import TERMINAL_PHASES, Pod

_PART_OF, _LLM = "app.kubernetes.io/part-of", "llminferenceservice"


@dataclass(frozen=True, slots=True)
class ServiceKind:
    """A kind of KServe's services.

    Args:
        kind: The kind.
        selector: Selects the pods of its services.
        name_label: The label of those pods that has the name of the service.
        paths: The API paths of its collection in the versions that releases of KServe serve, newest first.
    """

    kind: str
    selector: str
    name_label: str
    paths: tuple[str, ...]


KINDS = {
    kind.kind: kind
    for kind in (
        ServiceKind("InferenceService", KSERVE_LABEL, KSERVE_LABEL, KSERVE_PATHS[0]),
        ServiceKind("LLMInferenceService", f"{_PART_OF}={_LLM}", "app.kubernetes.io/name", KSERVE_PATHS[1]),
    )
}


def is_uncached(pod: Pod) -> bool:
    """Return whether a pod that has not ended asked for a cached model and was left with its own download."""
    meta = pod.metadata
    has_ended = meta.deletion_timestamp is not None or pod.status.phase in TERMINAL_PHASES
    requests_cache = meta.annotations.get(ENABLE_CACHE, "false").lower() != "false"
    return requests_cache and NOT_CACHED in meta.annotations and not has_ended


def service_of(kind: str, pod: Pod) -> UncachedServiceKey | None:
    """Return the service of a pod that the selector of a kind found."""
    name = pod.metadata.labels.get(KINDS[kind].name_label, "")
    return UncachedServiceKey(kind, pod.metadata.namespace, name) if name else None
