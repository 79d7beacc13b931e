"""Which pods of a node use which snapshots."""

from collections.abc import Iterable, Mapping
from typing import Any

from controller.state.changes import TERMINAL
from controller.state.keys import EntryKey
from controller.state.pods.mounts import claims_of, mounts_snapshot, plain_paths
from shared.kube.objects import Key

Json = Mapping[str, Any]


def users_of(
    pods: Iterable[Json],
    entries: Iterable[EntryKey],
    store_root: str,
    path_of_claim: Mapping[Key, str],
) -> dict[EntryKey, tuple[str, ...]]:
    """Return the non-terminal pods, including Terminating ones, that mount each entry, as `namespace/name`.

    Admission gives every user a volume. A node selector alone does not count, as anyone could use one to block removal.
    `path_of_claim` has the directory on the node behind each PersistentVolumeClaim.
    """
    known = sorted(entries)
    users: dict[EntryKey, list[str]] = {}
    for pod in pods:
        if pod.get("status", {}).get("phase") in TERMINAL:
            continue
        volumes = pod.get("spec", {}).get("volumes") or []
        hosted = [(volume.get("hostPath") or {}).get("path", "") for volume in volumes]
        claimed = [path_of_claim[claim] for claim in claims_of(pod) if claim in path_of_claim]
        paths = plain_paths([*hosted, *claimed])
        name = f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
        for key in known if paths else ():
            if mounts_snapshot(paths, *key, store_root):
                users.setdefault(key, []).append(name)
    return {key: tuple(sorted(names)) for key, names in users.items()}
