"""Debug containers, which a tenant may add to a pod and which can mount any of its volumes."""

from rig.errors import CallRefused
from rig.node.containerd import SANDBOX_IMAGE
from rig.node.installation import Installation
from shared.json_object import Json

_STRATEGIC = "application/strategic-merge-patch+json"


def add_debugger(site: Installation, pod: Json, volume: str) -> str:
    """Add a debug container that mounts a volume writable; return its name, or an empty string if it is refused."""
    mount = {"name": volume, "mountPath": "/stolen", "readOnly": False}
    container = {"name": "debugger", "image": SANDBOX_IMAGE, "imagePullPolicy": "Never", "volumeMounts": [mount]}
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
    try:
        site.api.patch(f"{path}/ephemeralcontainers", {"spec": {"ephemeralContainers": [container]}}, _STRATEGIC)
    except CallRefused:
        return ""

    def running() -> bool:
        states = site.api.get(path)["status"].get("ephemeralContainerStatuses", [])
        return any("running" in status["state"] for status in states)

    site.until(running, "the debugger")
    return "debugger"
