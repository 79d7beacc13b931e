"""One turn for one toy: observe, decide, act."""

from dataclasses import dataclass
from typing import assert_never

from shared.kube.objects import Key
from tests.integration.manager.toys.act import ToyActor
from tests.integration.manager.toys.decide import Make, WriteStatus, decide
from tests.integration.manager.toys.observe import ToyObserver


@dataclass(frozen=True, slots=True)
class ToyReconciler:
    observer: ToyObserver
    actor: ToyActor

    async def reconcile(self, key: Key) -> float | None:
        view = self.observer.view(key)
        if view is None:
            return None
        for action in decide(view):
            match action:
                case Make(shown):
                    await self.actor.make(view.toy, shown)
                case WriteStatus(status):
                    await self.actor.write_status(view.toy, status)
                case _:
                    assert_never(action)
        return None
