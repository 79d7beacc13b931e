"""Ephemeral containers: they may read a model, never change it."""

import copy
from collections.abc import Mapping
from typing import Any

from controller.admission.paths import reaches
from controller.admission.pods.containers import force_read_only
from controller.admission.pods.patch import json_patch
from controller.admission.pods.result import PodChanges
from shared.json_object import Json


def make_store_read_only(pod: Mapping[str, Any], before: Mapping[str, Any], store_root: str) -> PodChanges:
    """Return the changes that make the new ephemeral containers' mounts of the store read-only."""
    hosted = ((v.get("name", ""), (v.get("hostPath") or {}).get("path", "")) for v in pod["spec"].get("volumes") or [])
    volumes = {name for name, path in hosted if path and reaches(path, store_root)}
    running = {c.get("name") for c in before.get("spec", {}).get("ephemeralContainers") or []}
    draft: Json = copy.deepcopy(dict(pod))
    for container in draft["spec"].get("ephemeralContainers") or []:
        if container.get("name") not in running:
            force_read_only(container, volumes)
    patch = json_patch(dict(pod), draft)
    warnings = ("the model store is mounted read-only in ephemeral containers",) if patch else ()
    return PodChanges(tuple(patch), warnings)
