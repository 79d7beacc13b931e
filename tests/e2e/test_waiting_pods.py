"""Pods on a real node that does not have their model yet."""

import hashlib
import os

from rig.hub.faults import Stall
from rig.node.containerd import SANDBOX_IMAGE
from rig.node.installation import Installation, is_pod_ready
from shared.json_object import Json

_PREFERRED = {"larder.dev/placement": "preferred"}


def test_a_pod_waits_for_its_files_and_one_with_on_missing_fail_is_failed(site: Installation) -> None:
    content = os.urandom(3_000_000)
    site.hub.faults.add(Stall(100_000), f"*{hashlib.sha256(content).hexdigest()}")
    files = {"config.json": b"{}", "model.safetensors": content}
    model = site.base_model(site.push(files=files), nodeSelector={"gpu": "yes"})
    site.until(lambda: bool(site.status("ClusterBaseModel", model).get("servingRevision")), "the model to be resolved")
    waits = site.deployment(model, annotations=_PREFERRED)
    job, container = site.name("job"), {"name": "main", "image": SANDBOX_IMAGE, "imagePullPolicy": "Never"}
    template = {
        "metadata": {"annotations": _PREFERRED | {"ome.io/base-model-name": model, "larder.dev/on-missing": "fail"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    body = {"metadata": {"name": job}, "spec": {"backoffLimit": 0, "template": template}}
    site.run("/apis/batch/v1/namespaces/{}/jobs", body, label="job-name")

    def ended() -> list[Json]:
        return [p for p in site.pods(f"job-name={job}", "default") if p["status"].get("phase") == "Failed"]

    site.until(lambda: bool(ended()), "the pod of the Job to end")
    (pod,) = ended()
    assert _is_missing(pod)
    assert not any((c.get("state") or {}).get("running") for c in pod["status"].get("containerStatuses", []))
    placed: list[Json] = []

    def is_placed() -> bool:
        placed[:] = [pod for pod in site.pods(f"app={waits}", "default") if "nodeName" in pod["spec"]]
        return bool(placed)

    site.until(is_placed, "the other pod to be scheduled")
    (waiting,) = placed
    assert waiting["spec"]["nodeName"] == "one"
    assert not is_pod_ready(waiting)
    site.until(lambda: "WaitingForModel" in site.reasons(waiting["metadata"]["name"]), "the event on the other pod")
    site.hub.faults.clear()
    found = site.running(waits)
    assert "config.json" in site.sh(found, "ls $MODEL_PATH")
    site.until(lambda: "ModelOnNode" in site.reasons(waiting["metadata"]["name"]), "the event that the model is there")
    assert _is_missing(ended()[0])  # kubelet left it as it was


def _is_missing(pod: Json) -> bool:
    """Return whether the controller failed the pod, from the condition: kubelet may drop the reason."""
    return any(c["type"] == "larder.dev/ModelMissing" and c["status"] == "True" for c in pod["status"]["conditions"])
