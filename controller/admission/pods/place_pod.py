"""Places a pod with its models: on nodes that have the files, or on nodes that will have them."""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, TypeVar, get_args

from controller.admission.catalog.port import Catalog, CatalogModel
from controller.admission.errors import InvalidRequest, ModelNotReady
from controller.admission.pods.pod_annotations import ENABLE_CACHE, NODE_GROUP, annotations_of
from controller.admission.pods.scheduling import (
    drop_absent,
    drop_preferences,
    drop_selectors,
    ensure_absent,
    ensure_affinity,
    ensure_preferences,
    ensure_selector,
    matches_nothing,
    required_terms,
    terms_of,
    with_labels,
)
from controller.admission.settings import AdmissionSettings
from controller.placement.pod_placement import (
    ON_MISSING_ANNOTATION,
    PLACEMENT_ANNOTATION,
    OnMissing,
    Placement,
)
from controller.placement.volume_names import SnapshotKey
from shared.api.model_cache_node_group import ModelCacheNodeGroup
from shared.json_object import Json
from shared.names import draining_label, fetching_label, ready_label, snapshot_label

_HAS, _FETCHES = 100, 50  # weights; the scheduler adds up those that a node matches
T = TypeVar("T", bound=str)


def placement_of(pod: Mapping[str, Any], settings: AdmissionSettings) -> Placement:
    """Return how a pod is placed. Raises InvalidRequest if an annotation has an invalid value.

    A bound pod cannot have a gate: if `gated` is only the cluster's default, such a pod is `required`.
    """
    annotations, bound = annotations_of(pod), pod.get("spec", {}).get("nodeName") or ""
    _checked(annotations, ON_MISSING_ANNOTATION, get_args(OnMissing), "wait")
    placement: Placement = _checked(annotations, PLACEMENT_ANNOTATION, get_args(Placement), settings.placement)
    if placement == "gated" and bound:
        if PLACEMENT_ANNOTATION not in annotations:
            return "required"
        raise InvalidRequest(
            f"annotation {PLACEMENT_ANNOTATION} is 'gated', but spec.nodeName already binds the pod to {bound}; remove "
            "nodeName, or write required or preferred"
        )
    return placement


def _checked(annotations: Mapping[str, str], name: str, known: tuple[T, ...], default: T) -> T:
    requested = annotations.get(name, default)
    found = next((value for value in known if value == requested), None)
    if found is None:
        raise InvalidRequest(f"annotation {name} is {requested!r}; write {', '.join(known[:-1])} or {known[-1]}")
    return found


def selectors_of(snapshot: SnapshotKey) -> dict[str, str]:
    """Return the node labels stating that this snapshot is complete on a node and not being removed."""
    return {ready_label(snapshot.id): "true", snapshot_label(snapshot.id, snapshot.revision): "true"}


def preferences_of(snapshot: SnapshotKey) -> list[Json]:
    """Return the preferred terms of a pod: nodes that have the snapshot and keep it, then nodes that fetch it."""
    fetching = {fetching_label(snapshot.id, snapshot.revision): "true"}
    return [
        {"weight": _HAS, "preference": with_labels(selectors_of(snapshot), {})},
        {"weight": _FETCHES, "preference": with_labels(fetching, {})},
    ]


def place_pod(spec: Json, model: CatalogModel, placement: Placement, catalog: Catalog, group: str = "") -> None:
    """Confine a pod to the nodes that its model needs; `group` is the node group that the pod itself names.

    Raises:
        MountConflict: The pod's own requirements contradict those of the model.
        ModelNotReady: No node can ever have the model.
    """
    snapshot, groups = SnapshotKey(model.id, model.serving_revision), _groups(model, catalog, group)
    clear_placement(spec, [snapshot])  # even the author's own: a second pass could not tell them apart
    if placement != "preferred":
        ensure_selector(spec, selectors_of(snapshot))
        if group:
            _confine_to_groups(spec, groups)
        return
    if (model.groups and not groups) or matches_nothing(model.node_affinity):
        names = [group] if group else list(model.groups)
        if groups or not names:
            cause = "spec.storage.nodeAffinity matches no node; correct it"
        elif len(names) == 1:
            cause = f"node group {names[0]} does not exist or matches no node; create or correct it"
        else:
            cause = f"node groups {' and '.join(names)} do not exist or match no node; create or correct one of them"
        raise ModelNotReady(f"{model.title} cannot be on any node: {cause}")
    ensure_selector(spec, model.node_selector)
    ensure_affinity(spec, model.node_affinity)
    _confine_to_groups(spec, groups)
    ensure_absent(spec, draining_label(snapshot.id, snapshot.revision))
    ensure_preferences(spec, preferences_of(snapshot))


def _groups(model: CatalogModel, catalog: Catalog, named: str) -> list[ModelCacheNodeGroup]:
    """Return the groups whose nodes may have the model, without groups that do not exist or match no node."""
    found = (catalog.group(name) for name in ([named] if named else model.groups))
    return [group for group in found if group is not None and not matches_nothing(group.spec.node_affinity)]


def _confine_to_groups(spec: Json, groups: list[ModelCacheNodeGroup]) -> None:
    """Confine the pod to any of these groups."""
    if len(groups) == 1:
        ensure_selector(spec, groups[0].spec.node_selector)
        ensure_affinity(spec, groups[0].spec.node_affinity)
        return
    terms = list(chain.from_iterable(_terms_of(group) for group in groups))
    if all(terms):  # otherwise one of the groups contains every node
        ensure_affinity(spec, required_terms(terms))


def _terms_of(group: ModelCacheNodeGroup) -> Iterable[Json]:
    """Yield terms such that every node of the group matches one; an empty term matches every node."""
    own = group.spec.node_affinity
    for term in terms_of(own) or [{}]:
        yield with_labels(group.spec.node_selector, term)


def group_named_by(pod: Mapping[str, Any], model: CatalogModel) -> str:
    """Return the node group of the model that a pod names, or an empty string for any.

    Raises InvalidRequest if the model is on other groups, unless the pod also asks for KServe's cache: the name is then
    meant for the cache.
    """
    named = annotations_of(pod).get(NODE_GROUP, "")
    if not named or not model.groups or named in model.groups:
        return named if model.groups else ""
    if ENABLE_CACHE in annotations_of(pod):
        return ""
    raise InvalidRequest(
        f"annotation {NODE_GROUP} is {named!r}, but {model.title} is kept on {', '.join(model.groups)}; write one of "
        "those, or remove the annotation"
    )


def clear_placement(spec: Json, snapshots: Iterable[SnapshotKey]) -> None:
    """Remove the requirements and preferences that an earlier pass added for these snapshots.

    Requirements copied from the model stay, because they look the same as the pod's own.
    """
    for snapshot in snapshots:
        drop_selectors(spec, selectors_of(snapshot))
        drop_preferences(spec, preferences_of(snapshot))
        drop_absent(spec, draining_label(snapshot.id, snapshot.revision))


def ensure_gate(spec: Json, name: str, *, gated: bool) -> None:
    """Add a scheduling gate, or remove it; other gates stay."""
    gates: list[Json] = spec.get("schedulingGates") or []
    others = [gate for gate in gates if gate.get("name") != name]
    if gated and others == gates:
        spec["schedulingGates"] = [*gates, {"name": name}]
    elif not gated and others:
        spec["schedulingGates"] = others
    elif not gated and gates:
        del spec["schedulingGates"]
