"""Creates pods' claims."""

from dataclasses import dataclass

from controller.claimtemplates.templates import ClaimOwner, is_controlled
from controller.provisioning.exclusive_names import create_exclusively
from controller.replica_claims.owners import WorkloadOwners
from controller.replica_claims.view import ReplicaClaim
from shared.api.core import PersistentVolumeClaim, claims_in
from shared.kube.errors import Refused
from shared.kube.transport import Kube

_GONE = 404
_ADVICE = "rename the template, recreate the workload under another name, or delete that claim"


@dataclass(frozen=True, slots=True)
class ReplicaClaimActor:
    """Writes to the API server; creating a claim is idempotent."""

    kube: Kube
    owners: WorkloadOwners

    async def create(self, claim: ReplicaClaim) -> None:
        """Create a claim, unless it exists already.

        Raises:
            Refused: The name is taken, the workload is gone, or the API server refuses the claim.
            KubeError: The request failed; another attempt may succeed.
        """
        metadata = claim.body["metadata"]
        namespace, path = metadata["namespace"], claims_in(metadata["namespace"])
        (reference,) = metadata["ownerReferences"]
        owner = ClaimOwner(reference["apiVersion"], reference["kind"], reference["name"], reference["uid"])
        if not await self.owners.is_alive(namespace, owner):
            raise Refused(f"{owner.kind} {namespace}/{owner.name} is gone, so nothing can own the claim", _GONE)
        await create_exclusively(
            self.kube,
            path,
            claim.body,
            PersistentVolumeClaim,
            lambda found: is_controlled(found.metadata, owner.uid),
            _ADVICE,
            f"{owner.name}'s",
        )
