"""Which pods of a node use which snapshots."""

from collections.abc import Iterable, Mapping

from controller.state.keys import EntryKey
from controller.state.pods.mounts import mounts_snapshot, places_in_store
from shared.api.core import TERMINAL_PHASES, Pod
from shared.kube.objects import Key


def users_of(
    pods: Iterable[Pod],
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
        if pod.status.phase in TERMINAL_PHASES:
            continue
        claims = (Key(pod.metadata.namespace, name) for name in pod.spec.claims)
        claimed = (path_of_claim[claim] for claim in claims if claim in path_of_claim)
        places = places_in_store([*pod.spec.host_paths, *claimed], store_root)
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        for key in known if places else ():
            if mounts_snapshot(places, *key):
                users.setdefault(key, []).append(name)
    return {key: tuple(sorted(names)) for key, names in users.items()}
