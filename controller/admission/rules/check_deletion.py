"""Checks the deletion of an object that is still in use: plain functions of data."""

from collections.abc import Iterable, Sequence

from controller.admission.catalog.port import CatalogModel
from controller.admission.errors import InUse
from shared.api.kinds import CLUSTER_MODEL_CACHE, NODE_GROUP

_SHOWN = 5


def check_delete_model(title: str, users: Sequence[str], services: Sequence[str] = ()) -> None:
    """Raise InUse if pods use the model, or InferenceServices name it."""
    using = [_named(names, noun) for names, noun in ((services, "InferenceService"), (users, "pod")) if names]
    if using:
        raise InUse(f"{title} is used by {' and '.join(using)}; delete those first, or wait until they end")


def check_delete_group(name: str, caches: Iterable[CatalogModel]) -> None:
    """Raise InUse if caches still name the group."""
    naming = sorted(cache.name for cache in caches if name in cache.groups)
    if naming:
        kind = f"{CLUSTER_MODEL_CACHE.kind}{'' if len(naming) == 1 else 's'}"
        raise InUse(f"{NODE_GROUP.kind} {name} is used by {kind} {_shown(naming)}; delete those first")


def _named(users: Sequence[str], noun: str) -> str:
    return f"{len(users)} {noun}{'' if len(users) == 1 else 's'}: {_shown(sorted(users))}"


def _shown(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
