"""Which pods of a node use which snapshots."""

from collections.abc import Iterable, Mapping
from typing import Any

from controller.state.keys import EntryKey
from controller.state.mounts import mounts_snapshot, plain_paths

_TERMINAL = ("Succeeded", "Failed")
Json = Mapping[str, Any]


def users_of(pods: Iterable[Json], entries: Iterable[EntryKey], store_root: str) -> dict[EntryKey, tuple[str, ...]]:
    """Return the non-terminal pods, including Terminating ones, that mount each entry, as `namespace/name`.

    Admission gives every user a volume. A node selector alone does not count, as anyone could use one to block removal.
    """
    known = sorted(entries)
    users: dict[EntryKey, list[str]] = {}
    for pod in pods:
        if pod.get("status", {}).get("phase") in _TERMINAL:
            continue
        volumes = pod.get("spec", {}).get("volumes") or []
        paths = plain_paths((volume.get("hostPath") or {}).get("path", "") for volume in volumes)
        name = f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
        for key in known if paths else ():
            if mounts_snapshot(paths, *key, store_root):
                users.setdefault(key, []).append(name)
    return {key: tuple(sorted(names)) for key, names in users.items()}
