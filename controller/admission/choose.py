"""Which cache serves the URI that a pod asks for, and on which group of nodes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from controller.admission.catalog import Catalog, CatalogModel
from controller.admission.keys import NODE_GROUP, annotations_of
from controller.placement.selectors import matches_affinity, matches_labels
from shared.errors import InvalidURI
from shared.uri import parse_uri, sub_path_of


@dataclass(frozen=True, slots=True)
class Choice:
    """The cache, what follows its URI in the wanted one, and its group.

    `confined`: the pod named the group; `is_file`: the sub-path is one file, not a directory.
    """

    cache: CatalogModel
    sub_path: str = ""
    group: str = ""
    confined: bool = False
    is_file: bool = False


@dataclass(frozen=True, slots=True)
class NotCached:
    """No cache is used, for this reason; `unread` is the one whose files would have to be known."""

    why: str
    unread: CatalogModel | None = None


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
    """Return the usable cache with the longest prefix of the URI, by the group that fits the pod best."""
    try:
        wanted = str(parse_uri(text))
    except InvalidURI as error:
        return NotCached(str(error))
    first: NotCached | None = None
    for caches in _longest_first(wanted, catalog.caches()):
        outcome = _of_one_uri(wanted, caches, pod, catalog)
        if isinstance(outcome, Choice) or outcome.unread is not None:
            return outcome
        first = first or outcome
    return first or NotCached(
        f"no ClusterModelCache holds {wanted}; an administrator can create one with this storageUri"
    )


def _longest_first(wanted: str, caches: Iterable[CatalogModel]) -> list[list[CatalogModel]]:
    """Return the matching caches, those of the longest URI first, each list by name."""
    matches: dict[int, list[CatalogModel]] = {}
    for cache in caches:
        if cache.uri and sub_path_of(wanted, cache.uri) is not None:
            matches.setdefault(len(cache.uri), []).append(cache)
    return [sorted(matches[length], key=lambda c: c.name) for length in sorted(matches, reverse=True)]


def _of_one_uri(wanted: str, caches: list[CatalogModel], pod: Mapping[str, Any], catalog: Catalog) -> Outcome:
    usable = [cache for cache in caches if not problem_of(cache)]
    if not usable:
        return NotCached(f"{caches[0].title} {problem_of(caches[0])}")
    tail = sub_path_of(wanted, usable[0].uri) or ""
    outcome = _by_group([Choice(c, tail, g) for c in usable for g in c.groups], pod, catalog)
    if isinstance(outcome, NotCached):
        return NotCached(f"{usable[0].title} {outcome.why}")
    return _with_part(outcome, catalog) if tail else outcome


def _with_part(choice: Choice, catalog: Catalog) -> Outcome:
    """Return the choice once its sub-path is known to be there: kubelet would make a missing directory in the store."""
    match catalog.kind_of_path(choice.cache, choice.sub_path):
        case None:
            why = f"the files of {choice.cache.title} are not read yet, so {choice.sub_path!r} may not be among them"
            return NotCached(why, unread=choice.cache)
        case "absent":
            return NotCached(f"{choice.cache.title} has no file or directory {choice.sub_path!r}")
        case "file":
            return replace(choice, is_file=True)
        case "directory":
            return choice


def _by_group(choices: list[Choice], pod: Mapping[str, Any], catalog: Catalog) -> Outcome:
    """Return the choice whose group fits best, or why none does, for a sentence about the cache."""
    groups = ", ".join(sorted({c.group for c in choices})) or "no group"
    named = annotations_of(pod).get(NODE_GROUP, "")
    if named:
        choices = [replace(c, confined=True) for c in choices if c.group == named]
        if not choices:
            return NotCached(f"is kept on {groups}, not on {named} that {NODE_GROUP} names")
        groups = named
    node = pod.get("spec", {}).get("nodeName") or ""
    held = [c for c in choices if any(node in ("", n.name) for n in catalog.nodes_of_group(c.group))]
    if not held:
        missing = f"node {node} (spec.nodeName) is not" if node else "there is no node"
        return NotCached(f"is kept on {groups}, where {missing}")
    if len(held) == 1:
        return held[0]
    return next(_reachable(held, pod, catalog), held[0])


def _reachable(choices: list[Choice], pod: Mapping[str, Any], catalog: Catalog) -> Iterator[Choice]:
    spec = pod.get("spec", {})
    selector = spec.get("nodeSelector") or {}
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    for choice in choices:
        nodes = catalog.nodes_of_group(choice.group)
        if any(matches_labels(selector, n.labels) and matches_affinity(affinity, n.name, n.labels) for n in nodes):
            yield choice
