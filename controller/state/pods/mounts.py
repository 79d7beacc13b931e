"""Which models a pod mounts from the store; anyone may set labels and selectors, but volumes are immutable.

No input or output, no clock.
"""

import posixpath
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from shared.kube.objects import Key
from shared.names import short_id, snapshot_path


def claims_of(pod: Mapping[str, Any]) -> list[Key]:
    """Return the claims that a pod mounts."""
    namespace, volumes = pod["metadata"].get("namespace", ""), pod.get("spec", {}).get("volumes") or []
    names = ((volume.get("persistentVolumeClaim") or {}).get("claimName", "") for volume in volumes)
    return [Key(namespace, name) for name in names if name]


def plain_paths(paths: Iterable[str]) -> frozenset[str]:
    """Return host paths in normalised form."""
    return frozenset("/" + posixpath.normpath(path).lstrip("/") for path in paths if path)


def mounts_snapshot(paths: Collection[str], identity: str, revision: str, store_root: str) -> bool:
    """Return whether normalised paths include a snapshot, a path inside it, or all snapshots of its model.

    Mounting the whole store, as agents do, does not count as using a model.
    """
    model, snapshot = _model(identity, store_root), f"{store_root}/{snapshot_path(identity, revision)}"
    return any(path in (model, snapshot) or path.startswith(snapshot + "/") for path in paths)


def mounts_model(paths: Collection[str], identity: str, store_root: str) -> bool:
    """Return whether normalised paths include any snapshot of a model, a path inside one, or all of them."""
    model = _model(identity, store_root)
    return any(path == model or path.startswith(model + "/") for path in paths)


def _model(identity: str, store_root: str) -> str:
    return f"{store_root}/models/{short_id(identity)}"
