"""Creates and deletes the volumes and claims of models."""

from dataclasses import dataclass, replace
from typing import Any

from controller.placement.volume_names import is_our_claim, volume_names
from controller.provisioning.exclusive_names import NAME_CONFLICT, RefusedName, create_exclusively, name_taken
from controller.volumes.objects import VolumeManifest
from controller.volumes.taken_name import advice_on_taken_name
from shared.api.core import VOLUMES, PersistentVolume, PersistentVolumeClaim, claims_in
from shared.kube.collection import get_object
from shared.kube.edit import delete_if_present
from shared.kube.errors import AlreadyExists
from shared.kube.objects import Meta
from shared.kube.transport import Kube


@dataclass(frozen=True, slots=True)
class VolumeActor:
    """Writes to the API server; every creation may be repeated."""

    kube: Kube

    async def provision(self, manifest: VolumeManifest) -> None:
        """Create the missing parts of a volume and its claim.

        Raises:
            Refused: A name is taken or too long, or the API server refuses the objects.
            KubeError: The request failed; another attempt may succeed.
        """
        path = claims_in(manifest.namespace)
        claim = await get_object(self.kube, f"{path}/{manifest.claim}", PersistentVolumeClaim)
        if claim is not None:
            await self._restore_volume(manifest, claim)
            return
        made = await self._ensure_volume(manifest, volume_names(manifest.namespace, manifest.claim), uid="")
        advice = advice_on_taken_name(manifest.claim, manifest.wanted)
        await create_exclusively(self.kube, path, made.claim_body(), PersistentVolumeClaim, is_our_claim, advice)

    async def _restore_volume(self, manifest: VolumeManifest, claim: PersistentVolumeClaim) -> None:
        """Create the volume that an existing claim of ours names. Raises Refused if the claim is not ours."""
        if not is_our_claim(claim):
            advice = advice_on_taken_name(manifest.claim, manifest.wanted)
            raise name_taken("PersistentVolumeClaim", manifest.claim, advice)
        await self._ensure_volume(manifest, (claim.spec.volume_name,), uid=claim.metadata.uid)

    async def delete_claim(self, claim: Meta) -> None:
        """Delete the claim that was read."""
        await delete_if_present(self.kube, f"{claims_in(claim.namespace)}/{claim.name}", claim.uid)

    async def delete_volume(self, volume: PersistentVolume) -> None:
        """Delete the volume that was read, unless a live read shows that its claim exists."""
        name, bound_to = volume.claim, volume.spec.claim_ref.uid
        claim = await get_object(self.kube, f"{claims_in(name.namespace)}/{name.name}", PersistentVolumeClaim)
        if claim is None or (bound_to and claim.metadata.uid != bound_to):
            await delete_if_present(self.kube, f"{VOLUMES}/{volume.metadata.name}", volume.metadata.uid)

    async def _ensure_volume(self, manifest: VolumeManifest, names: tuple[str, ...], uid: str) -> VolumeManifest:
        """Create the volume under the first of the names that is free or ours already."""
        for name in dict.fromkeys(names):
            named = replace(manifest, volume=name)
            body = named.volume_body()
            if uid:
                body["spec"]["claimRef"]["uid"] = uid  # a claim that lost its volume binds only to one with its uid
            try:
                await self.kube.request("POST", VOLUMES, body=body)
            except AlreadyExists:
                found = await get_object(self.kube, f"{VOLUMES}/{name}", PersistentVolume)
                if found is None or not _is_same(found, body):
                    continue
            return named
        *rest, last = dict.fromkeys(names)
        what = f"PersistentVolumes {', '.join(rest)} and {last} exist" if rest else f"PersistentVolume {last} exists"
        one, which = ("them", "one of them") if rest else ("it", "it")
        raise RefusedName(
            NAME_CONFLICT,
            f"{what}, but not as Larder would create {one}; an administrator can delete {which} if nobody needs it",
        )


def _is_same(found: PersistentVolume, body: dict[str, Any]) -> bool:
    """Return whether a volume is the one that we would create."""
    spec = body["spec"]
    return (
        found.metadata.deletion_timestamp is None
        and found.metadata.labels.items() >= body["metadata"]["labels"].items()
        and found.spec.local.path == spec["local"]["path"]
        and found.spec.mount_options == spec["mountOptions"]
        and found.claim == (spec["claimRef"]["namespace"], spec["claimRef"]["name"])
        and found.spec.claim_ref.uid in ("", spec["claimRef"].get("uid", ""))
    )
