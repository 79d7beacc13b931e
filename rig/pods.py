"""Pods before admission: plain ones, pods that name a base model, and pods that KServe creates."""

from collections.abc import Callable, Mapping, Sequence

from shared.json_object import Json

Rewrite = Callable[[Json], tuple[Json, tuple[str, ...]]]  # from a pod to the admitted pod, and the warnings

BASE_MODEL = "ome.io/base-model-name"
ENABLE_CACHE = "serving.kserve.io/enable-model-cache"
KSERVE_URI = "internal.serving.kserve.io/storage-initializer-sourceuri"
_IMAGE = "pause:3.10"


def plain_pod(name: str, annotations: Mapping[str, str] | None = None, *containers: str) -> Json:
    """Return a small pod with these containers, by default `main`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name} | ({"annotations": dict(annotations)} if annotations else {}),
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [{"name": c, "image": _IMAGE} for c in containers or ("main",)],
        },
    }


def base_model_pod(name: str, model: str, *containers: str) -> Json:
    """Return a pod that requests a base model by name."""
    return plain_pod(name, {BASE_MODEL: model}, *containers)


def kserve_pod(name: str, uri: str, enable: str = "true", annotations: Mapping[str, str] | None = None) -> Json:
    """Return a pod as KServe creates it: the initializer fills an emptyDir that the server reads."""
    pod = plain_pod(name, {ENABLE_CACHE: enable, KSERVE_URI: uri} | dict(annotations or {}), "kserve-container")
    pod["metadata"]["labels"] = {"serving.kserve.io/inferenceservice": name}
    pod["spec"]["volumes"] = [{"name": "kserve-provision-location", "emptyDir": {}}]
    pod["spec"]["initContainers"] = [initializer([uri, "/mnt/models"])]
    pod["spec"]["containers"][0]["volumeMounts"] = [_mount(read_only=True)]
    return pod


def initializer(arguments: Sequence[str]) -> Json:
    """Return the download container of KServe."""
    return {
        "name": "storage-initializer",
        "image": "kserve/storage-initializer:latest",
        "args": list(arguments),
        "volumeMounts": [_mount(read_only=False)],
    }


def _mount(*, read_only: bool) -> Json:
    mount: Json = {"name": "kserve-provision-location", "mountPath": "/mnt/models"}
    return mount | ({"readOnly": True} if read_only else {})
