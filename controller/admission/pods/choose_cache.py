"""Chooses the cache that serves a pod's URI, and the group of nodes."""

import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeAlias

from controller.admission.catalog.port import Catalog, CatalogModel, CatalogNode
from controller.admission.pods.pod_annotations import NODE_GROUP, annotations_of
from controller.placement.selectors import matches_affinity, matches_labels
from shared.api.core import is_long
from shared.api.model_cache import MODEL_DIRECTORY
from shared.errors import InvalidURI
from shared.names import NODE_PREFIXES
from shared.uri.model_uri import parse_uri, sub_path_of

_MANY = 32  # of this many nodes, one is assumed to have room


@dataclass(frozen=True, slots=True)
class Choice:
    """The cache, the part of the requested URI below the cache's, and the group that the pod names, if any.

    `is_file`: the sub-path is one file, not a directory.
    """

    cache: CatalogModel
    sub_path: str = ""
    group: str = ""
    is_file: bool = False

    @property
    def volume_path(self) -> str:
        """The sub-path in the cache's volume."""
        return posixpath.join(MODEL_DIRECTORY, self.sub_path).rstrip("/") if self.cache.claim else self.sub_path


@dataclass(frozen=True, slots=True)
class NotCached:
    """No cache is used, for this reason; `unread` is a cache whose file list must be read first."""

    reason: str
    unread: CatalogModel | None = None


Outcome: TypeAlias = Choice | NotCached


def problem_of(model: CatalogModel, *, needs_revision: bool = True) -> str:
    """Return why pods cannot get a model, or an empty string; a model on a claim has no revisions."""
    if model.deleting:
        return "is being deleted"
    if model.disabled:
        return "is disabled (spec.disabled: true)"
    if model.reason:
        return f"cannot be used: {model.reason}: {model.message}".rstrip(": ")
    return "" if model.serving_revision or not needs_revision else "is not resolved yet, so its files are not known"


def choose_cache(
    text: str, pod: Mapping[str, Any], catalog: Catalog, namespace: str, *, waits: bool = False
) -> Outcome:
    """Return the usable cache with the longest prefix of the URI, the namespace's own first.

    A ClusterModelCache must be on nodes where the pod can run; for a pod that `waits`, these need not exist yet.
    """
    try:
        uri = str(parse_uri(text))
    except InvalidURI as error:
        return NotCached(str(error))
    first: NotCached | None = None
    for caches in _longest_first(uri, [*catalog.model_caches(namespace), *catalog.cluster_model_caches()]):
        outcome = _of_one_uri(uri, caches, pod, catalog, waits=waits)
        if isinstance(outcome, Choice) or outcome.unread is not None:
            return outcome
        first = first or outcome
    return first or NotCached(
        f"no ClusterModelCache holds {uri}, and no ModelCache of namespace {namespace} does; create one for it"
    )


def _longest_first(uri: str, caches: Iterable[CatalogModel]) -> list[list[CatalogModel]]:
    """Return the matching caches grouped by URI, longest first; in each list, those of the namespace come first."""
    matches: dict[int, list[CatalogModel]] = {}
    for cache in caches:
        if cache.uri and sub_path_of(uri, cache.uri) is not None:
            matches.setdefault(len(cache.uri), []).append(cache)
    return [
        sorted(matches[length], key=lambda c: (not c.namespace, c.name)) for length in sorted(matches, reverse=True)
    ]


def _of_one_uri(
    uri: str, caches: list[CatalogModel], pod: Mapping[str, Any], catalog: Catalog, *, waits: bool
) -> Outcome:
    usable = [cache for cache in caches if not problem_of(cache)]
    if not usable:
        return NotCached(f"{caches[0].title} {problem_of(caches[0])}")
    tail = sub_path_of(uri, usable[0].uri) or ""
    own = usable[0].claim
    outcome = Choice(usable[0], tail) if own else _where_pod_runs(usable, tail, pod, catalog, waits=waits)
    if isinstance(outcome, NotCached):
        return NotCached(f"{usable[0].title} {outcome.reason}")
    return _with_part(outcome, catalog) if tail else outcome


def _with_part(choice: Choice, catalog: Catalog) -> Outcome:
    """Return the choice if its sub-path exists: kubelet would create a missing directory inside the store."""
    match catalog.kind_of_path(choice.cache, choice.sub_path):
        case None:
            reason = f"the files of {choice.cache.title} have not been read yet, so {choice.sub_path!r} may not exist"
            return NotCached(reason, unread=choice.cache)
        case "absent":
            return NotCached(f"{choice.cache.title} has no file or directory {choice.sub_path!r}")
        case "file":
            return replace(choice, is_file=True)
        case "directory":
            return choice


def _where_pod_runs(
    caches: list[CatalogModel], tail: str, pod: Mapping[str, Any], catalog: Catalog, *, waits: bool
) -> Outcome:
    """Return the first cache with a node that the pod may run on, or the reason, worded to follow the cache's name.

    Full nodes do not count, not even for pods that wait: the scheduler would use one, and no node would be added.
    """
    named = annotations_of(pod).get(NODE_GROUP, "")
    listed = sorted({group for cache in caches for group in cache.groups})
    if named and named not in listed:
        return NotCached(f"is kept on {_listed(listed)}, not on {named}, which annotation {NODE_GROUP} names")
    groups = {group: list(catalog.nodes_of_group(group)) for group in ([named] if named else listed)}
    where = f"is kept on {_listed(groups)}"
    node = pod.get("spec", {}).get("nodeName") or ""
    if node and not any(node == member.name for held in groups.values() for member in held):
        return NotCached(f"{where}, which node {node} (spec.nodeName) does not belong to")
    if not waits and not any(groups.values()):
        return NotCached(f"{where}, where there are no nodes")
    may_run, full, unreached = _reach_of(pod), set[str](), list[CatalogModel]()
    for cache in caches:
        reached = (m.name for group in cache.groups for m in groups.get(group, ()) if may_run(m))
        names = list(islice(reached, _MANY))
        if not names:
            unreached.append(cache)
        elif len(names) == _MANY or not all(catalog.lacks_space(cache, name) for name in names):
            return Choice(cache, tail, named)
        full |= set(names)
    if waits and unreached:
        return Choice(unreached[0], tail, named)
    if full:
        nodes = _listed(sorted(full))
        return NotCached(f"{where}, but does not fit on any node there that the pod may run on ({nodes})")
    return NotCached(f"{where}, but the pod's own nodeSelector or node affinity excludes every node there")


def _listed(groups: Iterable[str]) -> str:
    return ", ".join(groups) or "no group"


def _reach_of(pod: Mapping[str, Any]) -> Callable[[CatalogNode], bool]:
    """Return a predicate for nodes on which the pod may run by its own spec; our own labels count as present.

    An affinity of more than 4 KiB counts as none: anyone may send one that takes minutes to compare with every node.
    """
    spec = pod.get("spec", {})
    selector = {k: v for k, v in (spec.get("nodeSelector") or {}).items() if not k.startswith(NODE_PREFIXES)}
    affinity, bound = (spec.get("affinity") or {}).get("nodeAffinity") or {}, spec.get("nodeName") or ""
    if is_long(affinity):
        affinity = {}
    return lambda node: (
        node.name == bound
        if bound
        else matches_labels(selector, node.labels) and matches_affinity(affinity, node.name, node.labels)
    )
