"""The labels and annotations that define how a pod is placed on nodes with its model."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from shared.names import namespace_of

Placement: TypeAlias = Literal["required", "preferred", "gated"]
OnMissing: TypeAlias = Literal["wait", "fail"]

PLACEMENT_ANNOTATION = "larder.dev/placement"  # required, preferred or gated; admission records the effective one
ON_MISSING_ANNOTATION = "larder.dev/on-missing"  # what happens to a preferred pod on a node without the files
ENDED_ANNOTATION = "larder.dev/ended"  # when the controller ended a pod that must not wait
MODEL_GATE = "larder.dev/model"  # the scheduling gate of gated pods, which the controller removes
MODELS_ANNOTATION = "larder.dev/models"  # the models given to the pod: <id>@<revision>, comma-separated
MAX_MODELS = 32
LONGEST_TEXT = 16 * 1024


def promised_snapshots(namespace: str, annotations: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the model ids and revisions that a pod was given, in order, without models on PersistentVolumeClaims.

    Anyone may write the annotation later. So models of other namespaces are left out, and an annotation of more than 32
    parts or 16 KiB counts as empty.
    """
    text = annotations.get(MODELS_ANNOTATION, "")
    if len(text) > LONGEST_TEXT or text.count(",") >= MAX_MODELS:
        return []
    parts = (part.strip().partition("@") for part in text.split(","))
    found = ((identity, revision) for identity, _, revision in parts if identity and revision)
    return list(dict.fromkeys(key for key in found if namespace_of(key[0]) in ("", namespace)))
