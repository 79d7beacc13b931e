"""Ranks nodes by a pod's models: plain functions of node labels and of the free space in the store."""

from collections.abc import Collection, Mapping
from enum import IntEnum

from shared.names import draining_label, fetching_label, ready_label, snapshot_label

Snapshot = tuple[str, str]


class ModelPreference(IntEnum):
    """How well a node serves a pod with models; higher is better, and the value is added to the priority."""

    NOTHING = 0
    HAS_ROOM = 3
    FETCHES = 6
    HAS_MODEL = 9


def model_preference(snapshots: Collection[Snapshot], labels: Mapping[str, str], *, has_room: bool) -> ModelPreference:
    """Return the preference for the pod's worst-served snapshot; `has_room`: the store has space for them all."""
    return min((_of_one(*each, labels, has_room=has_room) for each in snapshots), default=ModelPreference.NOTHING)


def _of_one(identity: str, revision: str, labels: Mapping[str, str], *, has_room: bool) -> ModelPreference:
    is_draining = draining_label(identity, revision) in labels
    if labels.get(snapshot_label(identity, revision)) == "true" and not is_draining:
        if labels.get(ready_label(identity)) == "true":
            return ModelPreference.HAS_MODEL
        return ModelPreference.FETCHES
    if labels.get(fetching_label(identity, revision)) == "true":
        return ModelPreference.FETCHES
    return ModelPreference.HAS_ROOM if has_room else ModelPreference.NOTHING
