"""Changes pods that Larder does not own, each based on the version that was read."""

from shared.api.core import Pod, pods_in
from shared.json_object import Json
from shared.kube.edit import merge_patch
from shared.kube.errors import Conflict, NotFound
from shared.kube.transport import Kube


async def remove_gate(kube: Kube, pod: Pod, name: str) -> bool:
    """Remove a scheduling gate and leave all others; return whether it was removed.

    Raises:
        Refused: The API server does not allow it for this pod.
        KubeError: The request failed.
    """
    left = [{"name": gate.name} for gate in pod.spec.scheduling_gates if gate.name != name]
    return await patch_pod(kube, pod, {"spec": {"schedulingGates": left or None}})


async def patch_pod(kube: Kube, pod: Pod, change: Json, version: str = "", part: str = "") -> bool:
    """Change a pod; return False if it is gone or has changed since it was read; the watch then delivers that.

    Args:
        kube: The API client.
        pod: The pod that was read.
        change: A merge patch.
        version: The version that was read, if it is newer than that of `pod`.
        part: `/status`, or empty.

    Raises:
        Refused: The API server does not allow it for this pod.
        KubeError: The request failed.
    """
    read = {"uid": pod.metadata.uid, "resourceVersion": version or pod.metadata.resource_version}
    try:
        await merge_patch(kube, pod_path(pod) + part, change | {"metadata": change.get("metadata", {}) | read})
    except (Conflict, NotFound):
        return False
    return True


def pod_path(pod: Pod) -> str:
    """Return the API path of a pod."""
    return f"{pods_in(pod.metadata.namespace)}/{pod.metadata.name}"
