"""Which pods of a node use which snapshot."""

from collections.abc import Iterable, Mapping
from typing import Any

from controller.nodes.view import EntryKey
from shared.names import snapshot_label, snapshot_path

_TERMINAL = ("Succeeded", "Failed")


def users_of(
    pods: Iterable[Mapping[str, Any]], entries: Iterable[EntryKey], store_root: str
) -> dict[EntryKey, tuple[str, ...]]:
    """Return the non-terminal pods, Terminating ones included, that refer to each entry, as `namespace/name`."""
    known = list(entries)
    users: dict[EntryKey, list[str]] = {}
    for pod in pods:
        if pod.get("status", {}).get("phase") in _TERMINAL:
            continue
        name = f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
        for key in known:
            if _refers(pod, key, store_root):
                users.setdefault(key, []).append(name)
    return {key: tuple(sorted(names)) for key, names in users.items()}


def _refers(pod: Mapping[str, Any], key: EntryKey, store_root: str) -> bool:
    """A selector on the snapshot, or a volume at it: whoever wrote them."""
    spec = pod.get("spec", {})
    if snapshot_label(*key) in (spec.get("nodeSelector") or {}):
        return True
    path = f"{store_root}/{snapshot_path(*key)}"
    hosted = ((volume.get("hostPath") or {}).get("path", "").rstrip("/") for volume in spec.get("volumes") or [])
    return any(host == path or host.startswith(path + "/") for host in hosted)
