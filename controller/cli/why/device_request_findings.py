"""Explains why a pod does not get the devices that it requests by annotation. No input or output, no clock."""

from collections.abc import Iterator

from controller.cli.why.device_nodes import device_node_findings
from controller.cli.why.findings import Finding, fact, some, stop
from controller.cli.why.kinds import ObservedPod
from controller.cli.why.view import ClusterView, DeviceScheduling
from controller.devices.refusal_reasons import first_of
from controller.extender.device_objects import DevicePod, DevicePodSpec
from controller.extender.requested_devices import RequestedDevices, allocated_devices, requested_devices
from shared.api.core import TERMINAL_PHASES
from shared.api.meta import condition_of
from shared.devices.annotation import ANNOTATION, InvalidDeviceInfo
from shared.devices.info import requests_devices
from shared.devices.scheduler import DEFAULT_SCHEDULER, DEVICES_RESOURCE, NAMESPACE_LABEL, SCHEDULER_NAME

_NOT_ADMITTED = (
    "it was created while scheduler.enabled was off, or while admission did not answer and failurePolicy was Ignore"
)
_ADMIT = "recreate the pod; check scheduler.enabled in the chart and `kubectl get mutatingwebhookconfiguration larder`"


def wants_devices(pod: ObservedPod) -> bool:
    """Return whether a pod wants devices from larder-scheduler, or has an unreadable annotation."""
    return _request_of(pod) is not None


def awaits_devices(pod: ObservedPod) -> bool:
    """Return whether a pod that wants devices has yet to be placed by larder-scheduler."""
    return _may_be_placed(pod) and isinstance(_request_of(pod), RequestedDevices)


def requested_device_findings(
    pod: ObservedPod, scheduling: DeviceScheduling | None, cluster: ClusterView
) -> Iterator[Finding]:
    """Yield which devices a pod got, or why it has none and which nodes could hold it."""
    requested, namespace = _request_of(pod), pod.metadata.namespace
    if requested is None:
        return
    if isinstance(requested, str):
        yield stop(
            "devices", "InvalidDeviceInfo", f"annotation {ANNOTATION} of the pod: {requested}",
            "correct it and recreate the pod; in a Deployment or Job, correct the pod template",
        )  # fmt: skip
    elif cluster.excludes(namespace):
        message = f"pods in namespace {namespace} get no devices"
        yield stop("devices", "ExcludedNamespace", message, "create it in another namespace")
    elif pod.spec.scheduler_name != SCHEDULER_NAME:
        yield _other_scheduler(pod.spec.scheduler_name)
    elif pod.spec.node_name:
        yield _allocation(pod)
    elif _may_be_placed(pod):
        if missed := _not_marked(pod):
            yield missed
        if scheduling is not None:
            yield from _scheduling_findings(pod, scheduling, cluster.release_namespace)
        yield from device_node_findings(requested.info, cluster)


def _request_of(pod: ObservedPod) -> RequestedDevices | str | None:
    """Return a pod's requests, why they cannot be read, or None if it wants no devices from larder-scheduler.

    Cards in the resources of a container are for larder-scheduler only if the pod names it.
    """
    try:
        requested = requested_devices(_device_pod(pod))
    except InvalidDeviceInfo as error:
        return first_of([str(error)])
    ours = pod.spec.scheduler_name == SCHEDULER_NAME or requests_devices(requested.info)
    return requested if requested and ours else None


def _device_pod(pod: ObservedPod) -> DevicePod:
    """Return the pod as the extender sees it, but never as ended, so that its allocation still counts."""
    spec = DevicePodSpec(
        node_name=pod.spec.node_name,
        scheduler_name=pod.spec.scheduler_name,
        containers=list(pod.spec.containers),
        init_containers=list(pod.spec.init_containers),
    )
    return DevicePod(metadata=pod.metadata, spec=spec)


def _may_be_placed(pod: ObservedPod) -> bool:
    waits = not pod.spec.node_name and pod.status.phase not in TERMINAL_PHASES
    return waits and pod.spec.scheduler_name == SCHEDULER_NAME


def _other_scheduler(name: str) -> Finding:
    if name == DEFAULT_SCHEDULER:
        message = f"admission did not send it to {SCHEDULER_NAME}, so it gets no devices: {_NOT_ADMITTED}"
        return stop("devices", "OtherScheduler", message, _ADMIT)
    return stop(
        "devices", "OtherScheduler",
        f"its schedulerName is {name}, and only {SCHEDULER_NAME} allocates devices, so it gets none",
        f"remove schedulerName, so that admission sets {SCHEDULER_NAME}, and recreate the pod",
    )  # fmt: skip


def _not_marked(pod: ObservedPod) -> Finding | None:
    """Return why the scheduler ignores the devices of a pod that admission did not mark, or None."""
    if any(DEVICES_RESOURCE in container.resources.requests for container in pod.spec.containers):
        return None
    message = f"no container requests {DEVICES_RESOURCE}, so {SCHEDULER_NAME} ignores its devices: {_NOT_ADMITTED}"
    return stop("devices", "NotMarked", message, _ADMIT)


def _allocation(pod: ObservedPod) -> Finding:
    """Return which devices a pod has on its node, or why it has none."""
    info, node = allocated_devices(_device_pod(pod)), f"node/{pod.spec.node_name}"
    if info is None:
        message = f"it was put on {node} without {SCHEDULER_NAME}, so it has no devices"
        advice = "remove spec.nodeName from it, and recreate the pod"
        return _not_marked(pod) or stop("devices", "NotAllocated", message, advice)
    held = [
        f"{name} ({some(sorted(set(container.allocate_from.values())))})"
        for name, container in (*info.running_containers.items(), *info.init_containers.items())
        if container.allocate_from
    ]
    until = " until it ended" if pod.status.phase in TERMINAL_PHASES else ""
    return fact("devices", "Allocated", f"{some(held) or 'nothing'} on {node}{until}")


def _scheduling_findings(pod: ObservedPod, found: DeviceScheduling, larder_namespace: str) -> Iterator[Finding]:
    """Yield what keeps larder-scheduler from placing any pod of a namespace."""
    if found.hidden:
        yield fact("scheduler", "NotShown", f"you may not read {some(found.hidden)}, on which its placement depends")
    namespace, labels = pod.metadata.namespace, found.namespace.metadata.labels if found.namespace is not None else {}
    if "namespaces" not in found.hidden and labels.get(NAMESPACE_LABEL) != "true":
        yield stop(
            f"namespace/{namespace}", "NamespaceNotOpened",
            f"it lacks the label {NAMESPACE_LABEL}=true, so {SCHEDULER_NAME} may not place its pods",
            f"an administrator runs `kubectl label --overwrite namespace {namespace} {NAMESPACE_LABEL}=true`",
        )  # fmt: skip
    if "deployments" in found.hidden:
        return
    if found.scheduler is None:
        absent = f"there is no Deployment {SCHEDULER_NAME} in namespace {larder_namespace}"
        if condition_of(pod.status.conditions, "PodScheduled") is not None:
            yield fact("scheduler", "NoScheduler", f"{absent}, but a scheduler has refused the pod")
            return
        message = f"{absent}, so nothing places the pod"
        yield stop("scheduler", "NoScheduler", message, "set scheduler.enabled in the chart")
    elif not found.scheduler.status.ready_replicas:
        message = f"no pod of Deployment {SCHEDULER_NAME} in namespace {larder_namespace} is ready"
        advice = f"`larder why deploy/{larder_namespace}/{SCHEDULER_NAME}` explains why"
        yield stop("scheduler", "SchedulerNotReady", message, advice)
