"""Which models a pod mounts from the store; anyone may set labels and selectors, but volumes are immutable.

A place in the store is `<model>/<revision>`, or `<model>` for all snapshots of a model. No input or output, no clock.
"""

import posixpath
from collections.abc import Collection, Iterable

from shared.names import short_id


def places_in_store(paths: Iterable[str], store_root: str) -> frozenset[str]:
    """Return the places that host paths lead to, or are below.

    Mounting the whole store, as agents do, does not count as using a model. A pod may have tens of thousands of paths,
    and all entries of a node are compared with them, so a place is a name to look up.
    """
    models = f"{store_root}/models/"
    plain = ("/" + posixpath.normpath(path).lstrip("/") for path in paths if path)
    below = (path.removeprefix(models) for path in plain if path.startswith(models))
    return frozenset("/".join(path.split("/", 2)[:2]) for path in below)


def mounts_snapshot(places: Collection[str], identity: str, revision: str) -> bool:
    """Return whether places include a snapshot, or all snapshots of its model."""
    model = short_id(identity)
    return model in places or f"{model}/{revision}" in places


def mounts_model(places: Collection[str], identity: str) -> bool:
    """Return whether places include any snapshot of a model, or all of them."""
    model = short_id(identity)
    return any(place.partition("/")[0] == model for place in places)
