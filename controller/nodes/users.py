"""Which pods of a node use which snapshot."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from controller.nodes.view import EntryKey
from shared.names import ready_label, snapshot_label, snapshot_path

_TERMINAL = ("Succeeded", "Failed")
Json = Mapping[str, Any]


def users_of(pods: Iterable[Json], entries: Iterable[EntryKey], store_root: str) -> dict[EntryKey, tuple[str, ...]]:
    """Return the non-terminal pods, Terminating ones included, that refer to each entry, as `namespace/name`."""
    known = sorted(entries)
    users: dict[EntryKey, list[str]] = {}
    for pod in pods:
        if pod.get("status", {}).get("phase") in _TERMINAL:
            continue
        name = f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
        for key in _referred(pod, known, store_root):
            users.setdefault(key, []).append(name)
    return {key: tuple(sorted(names)) for key, names in users.items()}


def _referred(pod: Json, known: list[EntryKey], store_root: str) -> Iterator[EntryKey]:
    """A selector on the snapshot, or a volume at it, whoever wrote them; the ready label alone means any revision."""
    spec = pod.get("spec", {})
    marks, hosted = set(_marks(spec)), tuple(_hosted(spec))
    if not marks and not hosted:
        return
    exact = {key for key in known if snapshot_label(*key) in marks or _is_mounted(key, hosted, store_root)}
    yield from exact
    settled = {identity for identity, _ in exact}
    yield from (k for k in known if k not in exact and k[0] not in settled and ready_label(k[0]) in marks)


def _marks(spec: Json) -> Iterator[str]:
    """Yield the label keys that the pod's node must have, by its selector or its required affinity."""
    yield from spec.get("nodeSelector") or {}
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    for term in (affinity or {}).get("nodeSelectorTerms") or []:
        for expression in term.get("matchExpressions") or []:
            if expression.get("operator") in ("In", "Exists"):
                yield expression.get("key", "")


def _hosted(spec: Json) -> Iterator[str]:
    for volume in spec.get("volumes") or []:
        if path := (volume.get("hostPath") or {}).get("path", "").rstrip("/"):
            yield path


def _is_mounted(key: EntryKey, hosted: Iterable[str], store_root: str) -> bool:
    path = f"{store_root}/{snapshot_path(*key)}"
    return any(host == path or host.startswith(path + "/") for host in hosted)
