"""The pod labels and annotations that admission reads and writes."""

from collections.abc import Mapping
from typing import Any

from controller.placement.pod_placement import (
    LONGEST_TEXT,
    MAX_MODELS,
    MODELS_ANNOTATION,
    PLACEMENT_ANNOTATION,
    Placement,
)
from controller.placement.volume_names import CLAIMS_ANNOTATION, SnapshotKey, write_claims
from controller.replica_claims.annotation import TEMPLATES_ANNOTATION
from shared.json_object import Json
from shared.names import USER_LABEL, USES_PREFIX, uses_label

BASE_MODEL = "ome.io/base-model-name"
MODEL_KIND = "larder.dev/model-kind"  # which of the two kinds is meant; by default the namespace's own takes precedence
MODEL_CONTAINER = "larder.dev/model-container"  # the container that gets the model; by default all
NAMED_MODELS = "larder.dev/model"  # <name> or <kind>/<name>, comma-separated
MOUNT_PATH = "larder.dev/mount-path"  # where the named model is mounted; for several, the parent directory
CONTAINER = "larder.dev/container"  # the containers that get the named models, comma-separated; by default all
VARIABLE = "larder.dev/env"  # the variable with the path; for several models, the prefix of their variables
LAYOUT = "larder.dev/layout"  # hub: the directory layout of huggingface_hub
HUB_PREFIX = "hub.larder.dev/"  # followed by a volume: the commit that its references point to
ENABLE_CACHE = "serving.kserve.io/enable-model-cache"
NODE_GROUP = "serving.kserve.io/nodegroup"
READ_ONLY = "storage.kserve.io/readonly"
KSERVE_LABEL = "serving.kserve.io/inferenceservice"  # KServe's webhook handles pods that have it
KSERVE_URI = "internal.serving.kserve.io/storage-initializer-sourceuri"
INITIALIZER = "storage-initializer"
KSERVE_CONTAINER = "kserve-container"

MOUNT = "larder.dev/mount"  # how the pod reaches its models: claim or hostPath
MODELS = MODELS_ANNOTATION
NOT_CACHED = "larder.dev/not-cached"  # why the pod was left unchanged
SOURCE_URI = "larder.dev/source-uri"  # the URI that KServe would have downloaded without a cache

TRIGGERS = (BASE_MODEL, NAMED_MODELS, ENABLE_CACHE)  # each asks for a model
OURS = (MODELS, CLAIMS_ANNOTATION, NOT_CACHED, SOURCE_URI)
POD_KEYS = (*TRIGGERS, TEMPLATES_ANNOTATION, *OURS)  # a pod with any of these is reviewed
_LONGEST_REASON = 220  # with our prefix, because some clients truncate warnings at 256 characters


def annotations_of(pod: Mapping[str, Any]) -> dict[str, str]:
    """Return the pod's annotations."""
    return pod.get("metadata", {}).get("annotations") or {}


def labels_of(pod: Mapping[str, Any]) -> dict[str, str]:
    """Return the pod's labels."""
    return pod.get("metadata", {}).get("labels") or {}


def has_keys(pod: Mapping[str, Any]) -> bool:
    """Return whether the pod asks for a model or claims, or carries our marks; all other pods are ignored."""
    annotations = annotations_of(pod)
    return any(key in annotations for key in POD_KEYS) or any(key.startswith(USES_PREFIX) for key in labels_of(pod))


def write_models(models: list[tuple[str, str]]) -> str:
    """Format the annotation for ids and revisions; a model on a claim has no revision."""
    return ",".join(f"{identity}@{revision}" if revision else identity for identity, revision in models)


def read_models(pod: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the ids and revisions in the pod's annotation; none if it has more than admission ever writes."""
    text = annotations_of(pod).get(MODELS, "")
    if len(text) > LONGEST_TEXT or text.count(",") >= MAX_MODELS:
        return []
    listed = [part.strip() for part in text.split(",")]
    return [(identity, revision) for identity, _, revision in (part.partition("@") for part in listed) if identity]


def record_models(pod: Json, models: list[tuple[str, str]]) -> None:
    """Record the models that the pod was given."""
    metadata = pod["metadata"]
    metadata["labels"] = (
        labels_of(pod) | {uses_label(identity): "true" for identity, _ in models} | {USER_LABEL: "true"}
    )
    metadata["annotations"] = annotations_of(pod) | {MODELS: write_models(models)}


def record_claims(pod: Json, claims: Mapping[str, SnapshotKey]) -> None:
    """Record the claims through which the pod reaches its models; the controller creates them."""
    pod["metadata"]["annotations"] = annotations_of(pod) | {CLAIMS_ANNOTATION: write_claims(claims)}


def record_placement(pod: Json, placement: Placement) -> None:
    """Record how the pod is placed, which may be the cluster's default."""
    pod["metadata"]["annotations"] = annotations_of(pod) | {PLACEMENT_ANNOTATION: placement}


def record_not_cached(pod: Json, reason: str) -> str:
    """Record on the pod why it was left unchanged, and return the same text for a warning."""
    short = reason if len(reason) <= _LONGEST_REASON else f"{reason[: _LONGEST_REASON - 3]}..."
    pod["metadata"]["annotations"] = annotations_of(pod) | {NOT_CACHED: short}
    return f"model not cached: {short}"
