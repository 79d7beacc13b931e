"""The compared pods: without a model, and with a model by each delivery method."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rig.node.containerd import SANDBOX_IMAGE
from shared.json_object import Json

INITIALIZER = "localhost/larder-bench-initializer:1"
READY = "ready"
_PATH = "/mnt/models"
_MOUNT: Json = {"name": "kserve-provision-location", "mountPath": _PATH}
_RESOURCES: Json = {
    "requests": {"cpu": "100m", "memory": "100Mi"},
    "limits": {"cpu": "1", "memory": "1Gi"},
}  # KServe's defaults


@dataclass(frozen=True)
class BenchModel:
    """A model that the node has, and a copy of it in a bucket."""

    size: str
    name: str
    uri: str


@dataclass(frozen=True)
class Contender:
    """A delivery method: its name in the report, the pod, and whether each pod gets its own namespace."""

    name: str
    pod: Json
    fresh: bool = False


def contenders(models: Sequence[BenchModel], s3: Mapping[str, str]) -> list[Contender]:
    """Return the contenders; `s3` are the environment variables for the bucket, and the last model is the largest."""
    largest = models[-1]
    return [
        Contender("no model, no volume", _pod({}, f"echo {READY}")),
        Contender("no model, an emptyDir", _with_volume(_pod({}, f"echo {READY}"))),
        Contender(f"hostPath, {largest.size}", named(largest, "hostPath")),
        *(Contender(f"**claim**, {model.size}", named(model, "claim")) for model in models),
        Contender(f"**claim**, {largest.size}, first pod of its namespace", named(largest, "claim"), fresh=True),
        *(Contender(f"storage-initializer, {model.size}", _initialized(model, s3)) for model in models),
    ]


def named(model: BenchModel, mount: str) -> Json:
    """Return a pod that names a model and gets it from the node."""
    wanted = {"larder.dev/model": model.name, "larder.dev/mount": mount, "larder.dev/mount-path": _PATH}
    return _pod(wanted, f"[ -f {_PATH}/config.json ] && echo {READY}")


def _initialized(model: BenchModel, s3: Mapping[str, str]) -> Json:
    """Return a pod as KServe creates it: an init container copies the model into an emptyDir."""
    pod = _with_volume(_pod({}, f"[ -f {_PATH}/config.json ] && echo {READY}"))
    container = {
        "name": "storage-initializer",
        "image": INITIALIZER,
        "imagePullPolicy": "Never",
        "args": [model.uri, _PATH],
        "env": [{"name": name, "value": value} for name, value in s3.items()],
        "resources": _RESOURCES,
        "volumeMounts": [_MOUNT],
    }
    return pod | {"spec": pod["spec"] | {"initContainers": [container]}}


def _with_volume(pod: Json) -> Json:
    """Return a pod with an emptyDir, mounted read-only."""
    pod["spec"]["volumes"] = [{"name": _MOUNT["name"], "emptyDir": {}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [_MOUNT | {"readOnly": True}]
    return pod


def _pod(annotations: Mapping[str, str], script: str) -> Json:
    """Return a pod that reports when it finds its model, and then waits."""
    container = {
        "name": "main",
        "image": SANDBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", f"{script}; exec sleep infinity"],
    }
    spec = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    return {"metadata": {"annotations": dict(annotations)}, "spec": spec}
