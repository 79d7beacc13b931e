"""The extender's controller, and its two informers, which every replica runs."""

from collections.abc import Iterator

from controller.extender.accounts import DeviceAccounts
from controller.extender.device_objects import DeviceNode, DevicePod
from controller.extender.keys import DeviceNodeKey
from controller.extender.reconcile import DeviceNodeReconciler
from controller.manager.controller import Controller
from controller.manager.watches import on
from controller.state.informer import Informer
from controller.state.signal import Signal
from shared.api.core import NODES, PODS
from shared.devices.scheduler import SCHEDULER_NAME
from shared.kube.cache import Cache


class DeviceInformers:
    """Informers that update the accounts: all nodes, and the pods of our scheduler (`schedulerName` is immutable)."""

    def __init__(self, accounts: DeviceAccounts) -> None:
        self.node_changed: Signal[DeviceNode | None, DeviceNode | None] = Signal()
        self.pod_changed: Signal[DevicePod | None, DevicePod | None] = Signal()
        self.node_changed.listen(accounts.node_changed)
        self.pod_changed.listen(accounts.pod_changed)
        self.nodes: Cache[DeviceNode] = Cache(self.node_changed.emit)
        self.pods: Cache[DevicePod] = Cache(
            self.pod_changed.emit, lambda: accounts.pods_listed({pod.metadata.uid for pod in self.pods})
        )

    def of_nodes(self) -> Informer[DeviceNode]:
        """Return the informer of nodes."""
        return Informer(NODES, DeviceNode, self.nodes, name="device_nodes")

    def of_pods(self) -> Informer[DevicePod]:
        """Return the informer of pods."""
        selector = f"spec.schedulerName={SCHEDULER_NAME}"
        return Informer(PODS, DevicePod, self.pods, name="device_pods", field_selector=selector)


def extender_controller(
    accounts: DeviceAccounts, informers: DeviceInformers, reconciler: DeviceNodeReconciler, *, enabled: bool
) -> Controller[DeviceNodeKey]:
    """Return the controller that watches nodes and pods; if the feature is off, it watches nothing."""

    def no_keys(*_: object) -> tuple[DeviceNodeKey, ...]:
        return ()

    return Controller(
        name="extender",
        key=DeviceNodeKey,
        all_keys=lambda: (DeviceNodeKey(account.name) for account in accounts),
        for_=(on(informers.node_changed, _of_node, informer=informers.of_nodes() if enabled else None),),
        watches=(on(informers.pod_changed, no_keys, informer=informers.of_pods() if enabled else None),),
        reconcile=reconciler.reconcile,
    )


def _of_node(before: DeviceNode | None, after: DeviceNode | None) -> Iterator[DeviceNodeKey]:
    node = after or before
    if node is not None:
        yield DeviceNodeKey(node.metadata.name)
