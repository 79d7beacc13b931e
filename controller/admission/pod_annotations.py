"""The names in a pod that admission reads and writes."""

from collections.abc import Mapping
from typing import Any

from shared.names import USES_PREFIX

Json = dict[str, Any]

BASE_MODEL = "ome.io/base-model-name"
MODEL_KIND = "larder.dev/model-kind"  # of the two that can have that name; the namespace's own first if not said
MODEL_CONTAINER = "larder.dev/model-container"  # the one that gets the model; all if not said
ENABLE_CACHE = "serving.kserve.io/enable-model-cache"
NODE_GROUP = "serving.kserve.io/nodegroup"
READ_ONLY = "storage.kserve.io/readonly"
KSERVE_LABEL = "serving.kserve.io/inferenceservice"  # KServe's webhook looks at the pods that have it
KSERVE_URI = "internal.serving.kserve.io/storage-initializer-sourceuri"
INITIALIZER = "storage-initializer"
KSERVE_CONTAINER = "kserve-container"

MODELS = "larder.dev/models"  # what the pod was given: <id>@<revision>, comma-separated
NOT_CACHED = "larder.dev/not-cached"  # why it was left alone
SOURCE_URI = "larder.dev/source-uri"  # what KServe would have downloaded, had a cache not taken its place

TRIGGERS = (BASE_MODEL, ENABLE_CACHE)
OURS = (MODELS, NOT_CACHED, SOURCE_URI)


def annotations_of(pod: Mapping[str, Any]) -> dict[str, str]:
    """Return the pod's annotations."""
    return pod.get("metadata", {}).get("annotations") or {}


def labels_of(pod: Mapping[str, Any]) -> dict[str, str]:
    """Return the pod's labels."""
    return pod.get("metadata", {}).get("labels") or {}


def has_keys(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod asks for a model or carries marks of ours; any other pod is none of our business."""
    annotations = annotations_of(pod)
    return any(key in annotations for key in (*TRIGGERS, *OURS)) or any(
        key.startswith(USES_PREFIX) for key in labels_of(pod)
    )


def write_models(models: list[tuple[str, str]]) -> str:
    """Return the annotation's text for ids and revisions; a model on a claim has no revision."""
    return ",".join(f"{identity}@{revision}" if revision else identity for identity, revision in models)


def read_models(pod: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the ids and revisions that the pod was given, as its annotation says."""
    listed = [part.strip() for part in annotations_of(pod).get(MODELS, "").split(",")]
    return [(identity, revision) for identity, _, revision in (part.partition("@") for part in listed) if identity]
