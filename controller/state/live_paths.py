"""Reads live where claims lead to, for decisions that must not rest on a stale cache."""

from collections.abc import Iterable

from controller.state.model_volumes import ModelVolumes
from shared.api.core import VOLUMES, PersistentVolume, PersistentVolumeClaim
from shared.kube.collection import get_object
from shared.kube.objects import Key
from shared.kube.transport import Kube


async def paths_of_claims(kube: Kube, known: ModelVolumes, claims: Iterable[Key]) -> dict[Key, str]:
    """Return the directories of the node that claims lead to, without those that lead to none.

    A claim that the caches do not know yet, or whose volume they do not know, is read live. Raises KubeError.
    """
    found = {claim: await _path_of(kube, known, claim) for claim in set(claims)}
    return {claim: path for claim, path in found.items() if path}


async def _path_of(kube: Kube, known: ModelVolumes, name: Key) -> str:
    volume, claim = known.volume_of(name), known.claims.get(name)
    if volume is None and (claim is None or known.is_ours(claim)):
        path = f"/api/v1/namespaces/{name.namespace}/persistentvolumeclaims/{name.name}"
        claim = await get_object(kube, path, PersistentVolumeClaim)
        if claim is not None and claim.spec.volume_name and known.is_ours(claim):
            volume = await get_object(kube, f"{VOLUMES}/{claim.spec.volume_name}", PersistentVolume)
    return volume.spec.local.path if volume is not None else ""
