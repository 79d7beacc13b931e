"""Which cache serves the URI that a pod asks for, and on which group of nodes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from controller.admission.catalog import Catalog, CatalogModel
from controller.admission.keys import NODE_GROUP, annotations_of
from controller.placement.selectors import matches_affinity, matches_labels
from shared.errors import InvalidURI
from shared.uri import parse_uri, sub_path_of


@dataclass(frozen=True, slots=True)
class Choice:
    """The cache, what follows its URI in the wanted one, and its group; `confined` when the pod named the group."""

    cache: CatalogModel
    sub_path: str = ""
    group: str = ""
    confined: bool = False


@dataclass(frozen=True, slots=True)
class NotCached:
    """No cache is used, for this reason."""

    why: str


Outcome: TypeAlias = Choice | NotCached


def problem_of(model: CatalogModel, *, needs_revision: bool = True) -> str:
    """Return why pods cannot get a model, or nothing; one on a claim has no revisions."""
    if model.deleting:
        return "is being deleted"
    if model.disabled:
        return "is disabled (spec.disabled: true)"
    if model.reason:
        return f"cannot be used: {model.reason}: {model.message}".rstrip(": ")
    return "" if model.serving_revision or not needs_revision else "is not resolved yet, so its files are not known"


def choose_cache(text: str, pod: Mapping[str, Any], catalog: Catalog) -> Outcome:
    """Return the cache with the longest prefix of the URI, by the group that fits the pod best."""
    try:
        wanted = str(parse_uri(text))
    except InvalidURI as error:
        return NotCached(str(error))
    matches = _longest(wanted, catalog.caches())
    if not matches:
        return NotCached(f"no ClusterModelCache holds {wanted}; an administrator can create one with this storageUri")
    usable = [cache for cache in matches if not problem_of(cache)]
    if not usable:
        return NotCached(f"{matches[0].title} {problem_of(matches[0])}")
    tail = sub_path_of(wanted, usable[0].uri) or ""
    if tail and catalog.has_path(usable[0], tail) is False:
        return NotCached(f"{usable[0].title} has no file or directory {tail!r}")
    return _by_group([Choice(c, tail, g) for c in usable for g in c.groups or ("",)], pod, catalog)


def _longest(wanted: str, caches: Iterable[CatalogModel]) -> list[CatalogModel]:
    """Return the caches with the longest matching URI, by name."""
    matches = [c for c in caches if c.uri and sub_path_of(wanted, c.uri) is not None]
    longest = max((len(c.uri) for c in matches), default=0)
    return sorted((c for c in matches if len(c.uri) == longest), key=lambda c: c.name)


def _by_group(choices: list[Choice], pod: Mapping[str, Any], catalog: Catalog) -> Outcome:
    named = annotations_of(pod).get(NODE_GROUP, "")
    if named:
        found = next((c for c in choices if c.group == named), None)
        if found:
            return Choice(found.cache, found.sub_path, named, confined=True)
        groups = ", ".join(sorted({c.group for c in choices})) or "no group"
        return NotCached(f"{choices[0].cache.title} is kept on {groups}, not on {named} that {NODE_GROUP} names")
    if len(choices) == 1:
        return choices[0]
    return next(_reachable(choices, pod, catalog), choices[0])


def _reachable(choices: list[Choice], pod: Mapping[str, Any], catalog: Catalog) -> Iterator[Choice]:
    spec = pod.get("spec", {})
    selector = spec.get("nodeSelector") or {}
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    for choice in choices:
        nodes = catalog.nodes_of_group(choice.group)
        if any(matches_labels(selector, n.labels) and matches_affinity(affinity, n.name, n.labels) for n in nodes):
            yield choice
