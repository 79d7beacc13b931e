"""Reconciles nodes with devices: an Event if the annotation cannot be read, otherwise a Lease for reservations."""

from dataclasses import dataclass

from controller.extender.accounts import DeviceAccounts, NodeAccount
from controller.extender.keys import DeviceNodeKey
from controller.extender.reserve import DeviceReserver
from controller.manager.limited_events import LimitedEvents
from shared.kube.events import EventSubject


@dataclass(frozen=True, slots=True)
class DeviceNodeReconciler:
    """Checks one node; only the leader does this. Without a reserver, nodes get no Leases."""

    accounts: DeviceAccounts
    events: LimitedEvents
    reserver: DeviceReserver | None = None

    async def reconcile(self, key: DeviceNodeKey) -> float | None:
        """Ensure that the Lease exists; report a malformed annotation hourly and after each change."""
        account = self.accounts.node(key.name)
        if account is None or not account.problem:
            self.events.forget(key)
        else:
            subject = EventSubject("v1", "Node", "", account.name, account.uid)
            await self.events.report(key, [subject], "InvalidDeviceInfo", account.problem, state_key=account.problem)
        if account is not None and self.reserver is not None and _has_devices(account):
            await self.reserver.ensure_lease(account)
        return None


def _has_devices(account: NodeAccount) -> bool:
    return bool(account.advertised.allocatable or account.advertised.capacity)
