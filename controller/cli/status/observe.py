"""Reads the models that the user may see, and notes what is forbidden."""

import asyncio
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote

from controller.cli.status.report import ObservedModel
from shared.api.kinds import STATUS_KINDS, Definition
from shared.api.model_node import PATH, ModelNode
from shared.kube.collection import get_object, list_objects
from shared.kube.errors import KubeError, NotFound, Refused
from shared.kube.transport import Kube


class Listing(NamedTuple):
    """A collection that the user may list, and its objects."""

    definition: Definition
    path: str
    models: tuple[ObservedModel, ...]


@dataclass(frozen=True, slots=True)
class VisibleModels:
    """What could be read, and one line for each thing that could not."""

    listings: tuple[Listing, ...]
    notes: tuple[str, ...]


async def read_models(kube: Kube, *, everywhere: bool) -> VisibleModels:
    """Read the cluster's models, and those of `kube.namespace` or, with `everywhere`, of all namespaces.

    Raises KubeError if nothing at all can be read.
    """
    answers = await asyncio.gather(
        *(_read(kube, d, everywhere=everywhere) for d in STATUS_KINDS), return_exceptions=True
    )
    errors = {d: a for d, a in zip(STATUS_KINDS, answers, strict=True) if isinstance(a, BaseException)}
    if broken := next((e for e in errors.values() if not _is_partial(e)), None):
        raise broken
    if len(errors) == len(STATUS_KINDS):
        raise _nothing(list(errors.values()))
    found = [a for a in answers if not isinstance(a, BaseException)]
    notes = [note for _, note in found if note] + [_missing(d, e) for d, e in errors.items()]
    return VisibleModels(tuple(listing for listing, _ in found), tuple(notes))


async def _read(kube: Kube, definition: Definition, *, everywhere: bool) -> tuple[Listing, str]:
    """Read one kind; if the user may not list all namespaces, only one of them, with a note."""
    mine = definition.path_in(kube.namespace) if definition.namespaced else definition.path
    if everywhere:
        try:
            return await _list(kube, definition, definition.path), ""
        except Refused:
            if not definition.namespaced:
                raise
        note = (
            f"only those in namespace {kube.namespace} are shown: you may not list {definition.name} in all namespaces"
        )
        return await _list(kube, definition, mine), f"{definition.kind}s: {note}; -n names another namespace"
    return await _list(kube, definition, mine), ""


async def _list(kube: Kube, definition: Definition, path: str) -> Listing:
    return Listing(definition, path, tuple(await list_objects(kube, path, ObservedModel)))


def _is_partial(error: BaseException) -> bool:
    """Return whether the rest is still worth showing despite this error."""
    return isinstance(error, NotFound) or (isinstance(error, Refused) and error.is_forbidden)


def _nothing(errors: list[BaseException]) -> BaseException:
    for error in errors:
        if isinstance(error, Refused):
            return error
    return NotFound(
        "the cluster serves none of Larder's kinds; install the chart larder-crds, or choose another --context"
    )


def _missing(definition: Definition, error: BaseException) -> str:
    if isinstance(error, NotFound):
        return f"{definition.kind}s are not shown: the cluster does not serve {definition.name}"
    where = "in this namespace" if definition.namespaced else "in the cluster"
    return f"{definition.kind}s are not shown: you may not list {definition.name} {where}"


async def check_node(kube: Kube, name: str) -> None:
    """Raise NotFound if the cluster has no such node; not checked for a user without permission."""
    try:
        found = await get_object(kube, f"{PATH}/{quote(name, safe='')}", ModelNode)
    except KubeError as error:
        if _is_partial(error):
            return
        raise
    if found is None:
        raise NotFound(f"there is no ModelNode {name}; `kubectl get modelnodes` lists them")
