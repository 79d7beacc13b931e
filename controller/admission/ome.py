"""Pods that OME made: they mount the model that they name by a volume of their own."""

from collections.abc import Mapping
from typing import Any

from controller.admission.containers import containers_of, mounts_of, path_of
from controller.admission.keys import labels_of
from controller.admission.volumes import BASE_MODEL_VOLUME

MODEL_LABEL = "base-model-name"  # OME's, on the pods that it makes for a model


def volume_of_ome(pod: Mapping[str, Any], model: str, path: str) -> str:
    """Return the volume by which OME mounts this model at a path; empty for a pod that OME did not make for it.

    OME's pods have its label, or a hostPath named after the model that is at the same path on the node.
    """
    spec = pod.get("spec", {})
    hosted = {v.get("name", ""): (v.get("hostPath") or {}).get("path", "") for v in spec.get("volumes") or []}
    labelled = labels_of(pod).get(MODEL_LABEL) == model
    mounted = (m.get("name", "") for c in containers_of(spec) for m in mounts_of(c) if path_of(m) == path)
    made = (n for n in mounted if n != BASE_MODEL_VOLUME and (labelled or (n == model and hosted.get(n) == path)))
    return next(made, "")
