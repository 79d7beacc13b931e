"""Confines a pod to nodes that have its model: node selectors, and the required node affinity of a node group."""

from collections.abc import Mapping
from itertools import product
from typing import Any

from controller.admission.errors import MountConflict
from controller.admission.pod_annotations import Json
from controller.placement.volume_names import SnapshotVolume
from shared.names import ready_label, snapshot_label

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PARTS = ("matchExpressions", "matchFields")
_MOST_TERMS = 100  # bounds the product of two long lists

Term = Mapping[str, list[Json]]


def selectors_of(snapshot: SnapshotVolume) -> dict[str, str]:
    """Return the node labels stating that this snapshot is complete on a node and not being removed."""
    return {ready_label(snapshot.id): "true", snapshot_label(snapshot.id, snapshot.revision): "true"}


def ensure_selector(spec: Json, labels: Mapping[str, str]) -> None:
    """Confine the pod to nodes with these labels. Raises MountConflict if it requires another value."""
    selector: dict[str, str] = spec.get("nodeSelector") or {}
    for key, value in labels.items():
        if selector.get(key, value) != value:
            raise MountConflict(
                f"the pod's nodeSelector requires {key}: {selector[key]!r}, but the model is on nodes with {value!r}; "
                "remove that entry"
            )
    spec["nodeSelector"] = selector | dict(labels)


def ensure_affinity(spec: Json, group_affinity: Mapping[str, Any]) -> None:
    """Confine the pod to nodes that a NodeAffinity's required part allows, in addition to its own requirements.

    The terms of one affinity are alternatives: a pod with A or B, in a group with C or D, gets A+C, A+D, B+C or B+D.
    """
    theirs = _terms(group_affinity)
    if not theirs:
        return
    affinity: Json = spec.get("affinity") or {}
    node_affinity: Json = affinity.get("nodeAffinity") or {}
    own = _terms(node_affinity)
    bounded = len(own) <= _MOST_TERMS
    if bounded and own and all(any(_implies(term, other) for other in theirs) for term in own):
        return
    if not bounded or len(own) * len(theirs) > _MOST_TERMS:
        raise MountConflict(
            f"the pod's required node affinity has {len(own)} terms and its node group's has {len(theirs)}, which "
            f"combine to more than {_MOST_TERMS}; use fewer terms, for example one with several values"
        )
    joined = [_join(mine, other) for mine, other in product(own, theirs)] if own else [dict(term) for term in theirs]
    spec["affinity"] = affinity | {"nodeAffinity": node_affinity | {_REQUIRED: {"nodeSelectorTerms": joined}}}


def _terms(affinity: Mapping[str, Any]) -> list[Term]:
    """Return the required terms that can match a node: a term without expressions and fields matches none."""
    found: list[Term] = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    return [term for term in found if any(term.get(part) for part in _PARTS)]


def _implies(term: Term, other: Term) -> bool:
    """Return whether a term requires everything that the other requires."""
    return all(asked in (term.get(part) or []) for part in _PARTS for asked in other.get(part) or [])


def _join(term: Term, other: Term) -> Json:
    joined = {part: [*(term.get(part) or [])] for part in _PARTS}
    for part in _PARTS:
        joined[part] += [asked for asked in other.get(part) or [] if asked not in joined[part]]
    return {part: asked for part, asked in joined.items() if asked}
