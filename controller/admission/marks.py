"""Our marks on a pod: selectors, the label that lists a model's users, and annotations that record what was done."""

from collections.abc import Mapping

from controller.admission.errors import MountConflict
from controller.admission.pod_annotations import (
    MODELS,
    NOT_CACHED,
    OURS,
    Json,
    annotations_of,
    labels_of,
    read_models,
    write_models,
)
from controller.admission.volumes import SnapshotKey
from shared.names import USER_LABEL, USES_PREFIX, ready_label, snapshot_label, uses_label

_LONGEST_WHY = 220  # with our prefix, because some clients truncate warnings at 256 characters


def clear_marks(pod: Json) -> None:
    """Remove marks that an earlier pass, or somebody else in our name, wrote."""
    selector: dict[str, str] = pod.get("spec", {}).get("nodeSelector") or {}
    given = {key for identity, revision in read_models(pod) for key in selectors_of(SnapshotKey(identity, revision))}
    _set(pod["spec"], "nodeSelector", {k: v for k, v in selector.items() if not (k in given and v == "true")})
    metadata = pod.setdefault("metadata", {})
    _set(metadata, "labels", {k: v for k, v in labels_of(pod).items() if not k.startswith(USES_PREFIX)})
    kept = {k: v for k, v in annotations_of(pod).items() if k not in OURS}
    _set(metadata, "annotations", kept)


def selectors_of(snapshot: SnapshotKey) -> dict[str, str]:
    """Return the node labels stating that this snapshot is complete on a node and not being removed."""
    return {ready_label(snapshot.id): "true", snapshot_label(snapshot.id, snapshot.revision): "true"}


def ensure_selector(spec: Json, wanted: Mapping[str, str]) -> None:
    """Confine the pod to nodes with these labels. Raises MountConflict if it asks for another value."""
    selector: dict[str, str] = spec.get("nodeSelector") or {}
    for key, value in wanted.items():
        if selector.get(key, value) != value:
            raise MountConflict(
                f"the pod's nodeSelector asks for {key}: {selector[key]!r}, but the model is on nodes with {value!r}; "
                "remove that line"
            )
    spec["nodeSelector"] = selector | dict(wanted)


def mark_given(pod: Json, models: list[tuple[str, str]]) -> None:
    """Record the models that the pod was given."""
    metadata = pod["metadata"]
    metadata["labels"] = (
        labels_of(pod) | {uses_label(identity): "true" for identity, _ in models} | {USER_LABEL: "true"}
    )
    metadata["annotations"] = annotations_of(pod) | {MODELS: write_models(models)}


def mark_not_cached(pod: Json, why: str) -> str:
    """Record on the pod why it was left unchanged, and return the same text for a warning."""
    short = why if len(why) <= _LONGEST_WHY else f"{why[: _LONGEST_WHY - 3]}..."
    pod["metadata"]["annotations"] = annotations_of(pod) | {NOT_CACHED: short}
    return f"model not cached: {short}"


def _set(part: Json, key: str, value: dict[str, str]) -> None:
    """Replace a map; an absent map is not created for nothing, and an emptied one is removed."""
    if value:
        part[key] = value
    elif part.get(key):
        del part[key]
