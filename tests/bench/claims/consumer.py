"""A consumer of the provisioner with claims for ConfigMaps: `python -m tests.bench.claims.consumer KUBECONFIG QPS LOG`.

It stands for any controller that creates claims. It requests the claims of all ConfigMaps that have none, in any
order, and writes a line for each attempt and for each claim, until it is killed.
"""

import asyncio
import random
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry

from controller.provisioning.exclusive_names import create_exclusively
from controller.provisioning.provision_queue import ProvisionOrder
from controller.provisioning.provision_request import ProvisionRequest
from controller.provisioning.provisioner import Provisioner, ProvisionSettings
from shared.api.core import PersistentVolumeClaim, claims_in
from shared.kube.collection import list_objects
from shared.kube.errors import KubeError
from shared.kube.objects import Meta, Object
from shared.kube.transport import Kube, connect

OWNER_LABEL = "bench.larder.dev/claims"
BURST = 10
_AGAIN_S = 1.0


@dataclass(frozen=True, slots=True)
class OwnerKey:
    """A claim of an owner."""

    namespace: str
    name: str


def claim_body(owner: Meta) -> dict[str, object]:
    """Return the claim of an owner."""
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner.name, "uid": owner.uid, "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": owner.name, "namespace": owner.namespace, "ownerReferences": [reference]},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "by-hand",
        },
    }


def creation(kube: Kube, owner: Meta, begun: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    """Return the creation of an owner's claim, which first calls `begun`."""

    def is_ours(found: PersistentVolumeClaim) -> bool:
        return any(reference.get("uid") == owner.uid for reference in found.metadata.owner_references)

    async def create() -> None:
        begun()
        path = claims_in(owner.namespace)
        await create_exclusively(kube, path, claim_body(owner), PersistentVolumeClaim, is_ours, "rename it")

    return create


async def main(kubeconfig: str, qps: float, log: Path) -> None:
    """Request the missing claims once a second, and serve the requests."""
    loop = asyncio.get_running_loop()
    with log.open("a", buffering=1) as lines:

        def note(what: str, owner: Meta, detail: object = "") -> None:
            lines.write(f"{what} {time.time():.3f} {owner.namespace}/{owner.name} {detail}\n")

        def internal(key: object, error: Exception) -> None:
            sys.stderr.write(f"{key}: {error!r}\n")

        settings = ProvisionSettings(rate=qps, burst=BURST)
        provisioner = Provisioner(settings, loop.time, CollectorRegistry(), internal)
        async with connect(kubeconfig) as kube, asyncio.TaskGroup() as tasks:
            tasks.create_task(provisioner.run())
            while True:
                try:
                    await request_missing(kube, provisioner, note)
                except KubeError as error:
                    sys.stderr.write(f"{error}\n")
                await asyncio.sleep(_AGAIN_S)


async def request_missing(kube: Kube, provisioner: Provisioner, note: Callable[..., None]) -> None:
    """Request the claims that are missing, and withdraw those whose owners are gone."""
    query = {"labelSelector": OWNER_LABEL}
    owners = [found.metadata for found in await list_objects(kube, "/api/v1/configmaps", Object, query)]
    claims = await list_objects(kube, "/api/v1/persistentvolumeclaims", PersistentVolumeClaim)
    there = {OwnerKey(claim.metadata.namespace, claim.metadata.name) for claim in claims}
    keys = {OwnerKey(owner.namespace, owner.name): owner for owner in owners}
    for key in known - keys.keys():
        provisioner.withdraw(key)
    known.intersection_update(keys)
    missing = [(key, owner) for key, owner in keys.items() if key not in there | done]
    for key, owner in random.sample(missing, len(missing)):
        known.add(key)
        order = ProvisionOrder(owner.creation_timestamp, owner.name)
        failed, created = partial(note, "failed", owner), partial(note_created, note, key, owner)
        create = creation(kube, owner, partial(note, "attempted", owner))
        provisioner.request(ProvisionRequest(key, owner.namespace, create, failed, created, order))


def note_created(note: Callable[..., None], key: OwnerKey, owner: Meta) -> None:
    """Write a line, and do not request the claim again: a list may be older than the claim."""
    done.add(key)
    note("created", owner)


known, done = set[OwnerKey](), set[OwnerKey]()

if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])))
