"""Sends pods that request devices to our scheduler, and marks the pods of that scheduler for the extender.

The scheduler asks the extender only about pods that request an extended resource, so that no other pod waits for it.
Plain functions of data.
"""

from collections.abc import Mapping
from typing import Any

from controller.admission.errors import InvalidRequest
from controller.admission.pods.pod_annotations import annotations_of
from shared.devices.annotation import ANNOTATION, InvalidDeviceInfo, parse_pod_request
from shared.devices.info import ContainerInfo, requests_devices
from shared.devices.scheduler import DEFAULT_SCHEDULER, DEVICES_RESOURCE, SCHEDULER_NAME
from shared.json_object import Json


def concerns_scheduler(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod has the device annotation, or names our scheduler."""
    return ANNOTATION in annotations_of(pod) or _scheduler_of(pod) == SCHEDULER_NAME


def ensure_scheduled(draft: Json) -> list[str]:
    """Send a pod that requests devices to our scheduler, and mark the pods of that scheduler; return warnings.

    A pod that names another scheduler keeps it, and gets no devices. Raises InvalidRequest for an invalid annotation.
    """
    asks = _asks_for_devices(draft)
    spec: Json = draft["spec"]
    if asks and _scheduler_of(draft) == DEFAULT_SCHEDULER:
        spec["schedulerName"] = SCHEDULER_NAME
    if _scheduler_of(draft) != SCHEDULER_NAME:
        return [_OTHER.format(scheduler=_scheduler_of(draft))] if asks else []
    containers: list[Json] = spec.get("containers") or []
    if containers and not any(DEVICES_RESOURCE in _limits(container) for container in containers):
        spec["containers"] = [_with_request(containers[0]), *containers[1:]]
    return [_BOUND] if asks and spec.get("nodeName") else []


_OTHER = (
    f"annotation {ANNOTATION}: only {SCHEDULER_NAME} allocates devices, and the pod names "
    "{scheduler}; remove schedulerName"
)
_BOUND = "spec.nodeName bypasses the scheduler, so the pod gets no devices; remove nodeName"


def _asks_for_devices(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod asks for devices by its annotation. Raises InvalidRequest."""
    text = annotations_of(pod).get(ANNOTATION, "")
    if not text:
        return False
    try:
        info = parse_pod_request(text)
    except InvalidDeviceInfo as error:
        raise InvalidRequest(f"annotation {ANNOTATION}: {error}") from error
    spec = pod["spec"]
    _check_names(info.running_containers, spec.get("containers") or [])
    _check_names(info.init_containers, spec.get("initContainers") or [])
    return requests_devices(info)


def _check_names(requested: Mapping[str, ContainerInfo], containers: list[Json]) -> None:
    known = {container.get("name") for container in containers}
    if unknown := sorted(requested.keys() - known):
        raise InvalidRequest(f"annotation {ANNOTATION}: the pod has no container {unknown[0]!r}; correct the name")


def _scheduler_of(pod: Mapping[str, Any]) -> str:
    return str(pod.get("spec", {}).get("schedulerName") or DEFAULT_SCHEDULER)


def _limits(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return (container.get("resources") or {}).get("limits") or {}


def _with_request(container: Json) -> Json:
    resources = container.get("resources") or {}
    both = {part: (resources.get(part) or {}) | {DEVICES_RESOURCE: "1"} for part in ("limits", "requests")}
    return container | {"resources": resources | both}
