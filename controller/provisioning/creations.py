"""A reconciler's requests to the provisioner: at most one per key, and its last failure."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import structlog

from controller.manager.keys import NamespacedKey
from controller.provisioning.creation_failure import CreationFailure
from controller.provisioning.failed_creations import FailedCreations
from controller.provisioning.provision_queue import ProvisionOrder
from controller.provisioning.provision_request import ProvisionRequest
from controller.provisioning.provisioner import Provisioner
from shared.kube.errors import KubeError

K = TypeVar("K", bound=NamespacedKey)
_log = structlog.get_logger()


@dataclass(slots=True)
class Creations(Generic[K]):
    """The creations that a reconciler requests, one per key; after each failure the key is reconciled again."""

    provisioner: Provisioner
    enqueue: Callable[[K], None]
    clock: Callable[[], float]
    _failures: FailedCreations[K] = field(init=False)

    def __post_init__(self) -> None:
        self._failures = FailedCreations(self.clock)

    def request(
        self,
        key: K,
        create: Callable[[], Awaitable[None]],
        order: ProvisionOrder,
        on_created: Callable[[K], None],
        names: Mapping[str, str],
    ) -> None:
        """Queue a creation, unless one of this key waits already.

        Args:
            key: The key of the owner, which is reconciled again if the creation fails.
            create: Creates the object; raises KubeError.
            order: Its place among the creations of the same flow.
            on_created: Called with the key once the object exists.
            names: Fields that identify it in log events.
        """

        def created() -> None:
            self._failures.forget(key)
            _log.info("claim_created", **names)
            on_created(key)

        def failed(error: KubeError) -> None:
            _log.warning("claim_not_created", **names, error=str(error))
            self._failures.note(key, error)
            self.enqueue(key)

        self.provisioner.request(ProvisionRequest(key, key.flow, create, failed, created, order))

    def position(self, key: K) -> int | None:
        """Return the place of a key in the queue, or None."""
        return self.provisioner.position(key)

    def failure(self, key: K) -> CreationFailure | None:
        """Return the last failure of a key since its objects were last created, or None."""
        return self._failures.of(key)

    def withdraw(self, key: K) -> None:
        """Remove a request that is no longer needed."""
        self.provisioner.withdraw(key)

    def forget_failure(self, key: K) -> None:
        """Forget the failures of a key."""
        self._failures.forget(key)

    def clear(self) -> None:
        """Drop all failures; the provisioner drops its requests itself."""
        self._failures.clear()
