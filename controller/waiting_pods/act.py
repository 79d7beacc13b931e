"""Removes the gates of pods, and ends pods that must not wait."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controller.manager.patch_pod import patch_pod, pod_path, remove_gate
from controller.placement.pod_placement import ENDED_ANNOTATION, MODEL_GATE, ON_MISSING_ANNOTATION
from controller.waiting_pods.keys import WaitingKey
from controller.waiting_pods.observe import has_files
from shared.api.core import NODES, Node, Pod
from shared.api.model_node import PATH, ModelNode
from shared.json_object import Json
from shared.kube.collection import decode, get_object
from shared.kube.errors import NotFound
from shared.kube.objects import timestamp
from shared.kube.transport import Kube

CONDITION = "larder.dev/ModelMissing"
REASON = "ModelMissing"
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class WaitingPodsActor:
    """Writes to pods, each time based on the version that was read; one that changed since is left to the next run."""

    kube: Kube

    async def remove_gate(self, pod: Pod) -> bool:
        """Remove our gate and leave all others; return whether it was removed.

        Raises:
            Refused: The API server does not allow it for this pod.
            KubeError: The request failed.
        """
        return await remove_gate(self.kube, pod, MODEL_GATE)

    async def fail(self, pod: Pod, key: WaitingKey, message: str, now: datetime) -> bool:
        """End a pod, unless live reads show that it has started or the files are there; return whether it was ended.

        Raises:
            Refused: The API server does not allow it for this pod.
            KubeError: The request failed.
        """
        for _ in range(_ATTEMPTS):  # kubelet also writes to a pod that has just been bound
            try:
                found = decode(await self.kube.request("GET", pod_path(pod)), Json)
            except NotFound:
                return False
            if not _may_fail(found, pod) or await self._is_complete(pod.spec.node_name, key):
                return False
            version = found["metadata"]["resourceVersion"]
            if await patch_pod(self.kube, pod, _ended(found, message, now), version, part="/status"):
                return True
        return False

    async def _is_complete(self, name: str, key: WaitingKey) -> bool:
        """Return whether the files are on the node, live."""
        node = await get_object(self.kube, f"{NODES}/{name}", Node)
        found = await get_object(self.kube, f"{PATH}/{name}", ModelNode)
        if node is None:
            return False
        own = found.status if found is not None and found.status.node_uid == node.metadata.uid else None
        phase = next((s.phase for s in own.entries if s.key == key.snapshot), "") if own else ""
        return has_files(node, key, phase)


def _ended(found: Json, message: str, now: datetime) -> Json:
    """Return the change that ends a pod.

    Kubelet ignores a status that others write and would start the pod once the files are there. A changed annotation
    in the same write makes it read the pod again, and it tears a Failed one down.
    """
    stamp = timestamp(now)
    missing = {"type": CONDITION, "status": "True", "reason": REASON, "message": message, "lastTransitionTime": stamp}
    others = [c for c in found["status"].get("conditions") or [] if c.get("type") != CONDITION]
    status = {"phase": "Failed", "reason": REASON, "message": message, "conditions": [*others, missing]}
    return {"metadata": {"annotations": {ENDED_ANNOTATION: stamp}}, "status": status}


def _may_fail(found: Json, pod: Pod) -> bool:
    """Return whether the pod still waits on the same node, still asks to be ended, and never ran a container."""
    meta, spec, status = found["metadata"], found["spec"], found.get("status") or {}
    asks = (meta.get("annotations") or {}).get(ON_MISSING_ANNOTATION) == "fail"
    waits = status.get("phase", "Pending") == "Pending" and not meta.get("deletionTimestamp")
    same = meta.get("uid") == pod.metadata.uid and spec.get("nodeName") == pod.spec.node_name
    return asks and waits and same and not _has_run(status)


def _has_run(status: Mapping[str, Any]) -> bool:
    kinds = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    containers = [c for kind in kinds for c in status.get(kind) or []]
    return any(c.get("restartCount") or (c.get("state") or {}).keys() & {"running", "terminated"} for c in containers)
