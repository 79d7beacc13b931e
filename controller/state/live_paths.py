"""Reads live where claims lead to, for decisions that must not rest on a stale cache."""

from controller.placement.volume_names import VOLUME_LABEL
from controller.state.model_volumes import is_our_volume
from shared.api.core import VOLUMES, PersistentVolume
from shared.kube.collection import list_objects
from shared.kube.objects import Key
from shared.kube.transport import Kube


async def paths_of_claims(kube: Kube, store_root: str) -> dict[Key, str]:
    """Return the directory of the node that each claim of a model leads to. Raises KubeError."""
    listed = await list_objects(kube, VOLUMES, PersistentVolume, {"labelSelector": f"{VOLUME_LABEL}=true"})
    return {volume.claim: volume.spec.local.path for volume in listed if is_our_volume(volume, store_root)}
