"""Reports nodes whose devices cannot be read, as Events on them."""

from dataclasses import dataclass

from controller.extender.accounts import DeviceAccounts
from controller.extender.keys import DeviceNodeKey
from controller.manager.limited_events import LimitedEvents
from shared.kube.events import EventSubject


@dataclass(frozen=True, slots=True)
class DeviceNodeReconciler:
    """Looks at one node; the leader's only part in the extender."""

    accounts: DeviceAccounts
    events: LimitedEvents

    async def reconcile(self, key: DeviceNodeKey) -> float | None:
        """Report a malformed annotation once an hour, or again after it changed."""
        account = self.accounts.node(key.name)
        if account is None or not account.problem:
            self.events.forget(key)
            return None
        subject = EventSubject("v1", "Node", "", account.name, account.uid)
        await self.events.report(key, [subject], "InvalidDeviceInfo", account.problem, news=account.problem)
        return None
