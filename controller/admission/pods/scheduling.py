"""Changes where a pod may run: its node selector, and the required and preferred terms of its node affinity.

A pod's own requirements are only ever added to. No input or output, no clock.
"""

from collections.abc import Collection, Mapping
from itertools import product
from typing import Any

import msgspec

from controller.admission.errors import MountConflict
from shared.json_object import Json

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_PARTS = ("matchExpressions", "matchFields")
_MAX_TERMS = 100  # bounds the product of two long lists
_LONGEST_BYTES = 256 * 1024  # of the product, which is written into the pod

Term = Mapping[str, list[Json]]


def ensure_selector(spec: Json, labels: Mapping[str, str]) -> None:
    """Confine the pod to nodes with these labels. Raises MountConflict if it requires another value."""
    selector: dict[str, str] = spec.get("nodeSelector") or {}
    for key, value in labels.items():
        if selector.get(key, value) != value:
            raise MountConflict(
                f"the pod's nodeSelector requires {key}: {selector[key]!r}, but the model is on nodes with {value!r}; "
                "remove that entry"
            )
    if labels:
        spec["nodeSelector"] = selector | dict(labels)


def drop_selectors(spec: Json, labels: Mapping[str, str]) -> None:
    """Remove these labels from the pod's node selector."""
    selector: dict[str, str] = spec.get("nodeSelector") or {}
    replace_items(spec, "nodeSelector", {k: v for k, v in selector.items() if labels.get(k) != v})


def ensure_affinity(spec: Json, added: Mapping[str, Any]) -> None:
    """Confine the pod to nodes that a NodeAffinity's required part allows, in addition to its own requirements.

    The terms of one affinity are alternatives: a pod with A or B, in a group with C or D, gets A+C, A+D, B+C or B+D.
    """
    theirs, node_affinity = terms_of(added), _node_affinity(spec)
    if not theirs or matches_nothing(node_affinity):
        return
    own = terms_of(node_affinity)
    bounded = len(own) <= _MAX_TERMS
    if own and _size_bytes(own, len(theirs)) + _size_bytes(theirs, len(own)) > _LONGEST_BYTES:
        raise MountConflict(
            "the pod's required node affinity and that of its model combine to more than "
            f"{_LONGEST_BYTES // 1024} KiB; use fewer or shorter terms"
        )
    if bounded and own and _implied(own, theirs):
        return
    if not bounded or len(own) * len(theirs) > _MAX_TERMS:
        raise MountConflict(
            f"the pod's required node affinity has {len(own)} terms and its node group's has {len(theirs)}, which "
            f"combine to more than {_MAX_TERMS}; use fewer terms, for example one with several values"
        )
    joined = [_join(mine, other) for mine, other in product(own, theirs)] if own else [dict(term) for term in theirs]
    _set_node_affinity(spec, node_affinity | required_terms(joined))


def ensure_absent(spec: Json, key: str) -> None:
    """Keep the pod off nodes with a label, in addition to its own requirements."""
    node_affinity, absent = _node_affinity(spec), {"matchExpressions": [_absent(key)]}
    if not matches_nothing(node_affinity):
        terms = [_join(absent, term) for term in terms_of(node_affinity)] or [
            absent
        ]  # first: the same on a second pass
        _set_node_affinity(spec, node_affinity | required_terms(terms))


def drop_absent(spec: Json, key: str) -> None:
    """Allow the pod on nodes with a label again; a term that required nothing else allows every node."""
    node_affinity = _node_affinity(spec)
    terms = terms_of(node_affinity)
    if not any(_absent(key) in (term.get("matchExpressions") or []) for term in terms):
        return
    left = [_without(term, _absent(key)) for term in terms]
    kept = {part: value for part, value in node_affinity.items() if part != _REQUIRED}
    _replace_node_affinity(spec, kept | (required_terms(left) if all(left) else {}))


def ensure_preferences(spec: Json, terms: Collection[Json]) -> None:
    """Add preferences for nodes that match these terms, after the pod's own preferences."""
    node_affinity = _node_affinity(spec)
    known: list[Json] = node_affinity.get(_PREFERRED) or []
    _set_node_affinity(spec, node_affinity | {_PREFERRED: [*known, *terms]})


def drop_preferences(spec: Json, terms: Collection[Json]) -> None:
    """Remove these terms from the pod's preferences."""
    before = _node_affinity(spec)
    node_affinity = dict(before)
    replace_items(node_affinity, _PREFERRED, [t for t in node_affinity.get(_PREFERRED) or [] if t not in terms])
    if node_affinity != before:
        _replace_node_affinity(spec, node_affinity)


def terms_of(affinity: Mapping[str, Any]) -> list[Term]:
    """Return the required terms that can match a node: a term without expressions and fields matches none."""
    found: list[Term] = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    return [term for term in found if any(term.get(part) for part in _PARTS)]


def matches_nothing(affinity: Mapping[str, Any]) -> bool:
    """Return whether the required part of a NodeAffinity allows no node at all."""
    return bool(affinity.get(_REQUIRED)) and not terms_of(affinity)


def required_terms(terms: Collection[Term]) -> Json:
    """Return the NodeAffinity that requires any of these terms."""
    return {_REQUIRED: {"nodeSelectorTerms": list(terms)}}


def with_labels(labels: Mapping[str, str], term: Term) -> Json:
    """Return the term that requires these labels as well."""
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(labels.items())]
    return _join({"matchExpressions": expressions}, term)


def _node_affinity(spec: Json) -> Json:
    """Return a copy of the pod's node affinity."""
    return dict((spec.get("affinity") or {}).get("nodeAffinity") or {})


def _set_node_affinity(spec: Json, node_affinity: Json) -> None:
    spec["affinity"] = (spec.get("affinity") or {}) | {"nodeAffinity": node_affinity}


def _replace_node_affinity(spec: Json, node_affinity: Json) -> None:
    """Set the pod's node affinity, or leave none if it is empty."""
    affinity = dict(spec.get("affinity") or {})
    replace_items(affinity, "nodeAffinity", node_affinity)
    replace_items(spec, "affinity", affinity)


def replace_items(part: Json, key: str, value: Collection[Any]) -> None:
    """Replace a list or map; no empty one is created, and an emptied one is removed."""
    if value:
        part[key] = value
    elif part.get(key):
        del part[key]


def _absent(key: str) -> Json:
    return {"key": key, "operator": "DoesNotExist"}


def _without(term: Term, expression: Json) -> Json:
    """Return the term without one of its expressions; empty if it has no other."""
    left = {part: [requirement for requirement in term.get(part) or [] if requirement != expression] for part in _PARTS}
    return {part: requirements for part, requirements in left.items() if requirements}


def _size_bytes(terms: Collection[Term], copies: int) -> int:
    return len(msgspec.json.encode(terms)) * copies


def _implied(own: Collection[Term], theirs: Collection[Term]) -> bool:
    """Return whether each of the own terms requires everything that one of theirs requires."""
    known = [_keys(other) for other in theirs]
    return all(any(other <= requirement for other in known) for requirement in map(_keys, own))


def _keys(term: Term) -> frozenset[tuple[str, bytes]]:
    """Return a term's requirements in a form that is fast to compare, even if they are long."""
    return frozenset(_key(part, requirement) for part in _PARTS for requirement in term.get(part) or [])


def _key(part: str, requirement: Json) -> tuple[str, bytes]:
    return part, msgspec.json.encode(requirement, order="deterministic")


def _join(term: Term, other: Term) -> Json:
    joined = {part: [*(term.get(part) or [])] for part in _PARTS}
    known = _keys(term)
    for part in _PARTS:
        joined[part] += [requirement for requirement in other.get(part) or [] if _key(part, requirement) not in known]
    return {part: requirements for part, requirements in joined.items() if requirements}
