"""The devices of one replica without its program."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

from controller.devices.plugin import DeviceScheduler
from controller.extender.accounts import DeviceAccounts, NodeAccount
from controller.extender.bind import DeviceBinder
from controller.extender.device_objects import DevicePod
from controller.extender.open_namespaces import OpenNamespaces
from controller.extender.reservations import ReservationStore
from controller.extender.reserve import DeviceReserver, NotBound
from controller.extender.shared_claims import SharedClaims
from controller.extender.wire import ExtenderBindingArgs
from controller.extender.worker import DeviceWorker
from shared.kube.cache import Cache
from shared.kube.transport import Kube
from tests.builders.devices import device_node


class DeviceReplica:
    """A replica that reserves devices and binds pods; it has no watches, as if they were far behind."""

    def __init__(
        self,
        kube: Kube,
        name: str = "me",
        plugins: Sequence[DeviceScheduler] = (),
        clock: Callable[[], float] = time.monotonic,
        namespace: str = "ns",
        is_open: Callable[[str], Awaitable[bool]] | None = None,
    ) -> None:
        self.accounts, self.conflicts = DeviceAccounts(), 0
        self.pods: Cache[DevicePod] = Cache(self.accounts.pod_changed)
        self.worker = DeviceWorker(self.accounts, plugins, time.monotonic)
        self.store = ReservationStore(kube, namespace, name, clock)
        self.reserver = DeviceReserver(kube, self.accounts, self.pods, self.worker, self.store, self._count)
        opened = is_open or OpenNamespaces(kube, clock).is_open
        claims = SharedClaims(kube, enabled=True)
        self.binder = DeviceBinder(kube, self.accounts, self.pods, self.reserver, opened, claims)

    def _count(self) -> None:
        self.conflicts += 1

    def add_node(self, cards: Mapping[str, int]) -> None:
        """Let the watch bring the node `n` with these devices."""
        self.accounts.node_changed(None, device_node("n", cards))

    @property
    def account(self) -> NodeAccount:
        """The account of the node `n`."""
        account = self.accounts.node("n")
        assert account is not None
        return account

    async def try_to_bind(self, args: ExtenderBindingArgs) -> str:
        """Bind a pod; return the reason if it was not bound, or an empty string."""
        try:
            await self.binder.bind(args)
        except NotBound as error:
            return str(error) or "no reason"
        return ""
