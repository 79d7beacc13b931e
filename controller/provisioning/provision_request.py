"""Requests to the provisioner."""

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass

from controller.provisioning.provision_queue import ProvisionOrder
from shared.kube.errors import KubeError


@dataclass(frozen=True, slots=True)
class ProvisionRequest:
    """A request to create the objects of one owner.

    Args:
        key: Identifies the request; a second one with the same key is ignored while the first waits. The name of its
            class, without `Key`, is the kind in metrics.
        flow: What it belongs to, such as a namespace; flows take turns.
        create: Creates the objects that are missing. Must be idempotent: after a failure it runs again.
        on_failure: Called when the request is refused (the error is not retryable), which ends it, or has failed
            `max_attempts` times in a row, which sends it to the tail of its flow.
        on_created: Called when the objects exist.
        order: Its place among the requests of its flow; requests with the same one are served in order of arrival.
    """

    key: Hashable
    flow: Hashable
    create: Callable[[], Awaitable[None]]
    on_failure: Callable[[KubeError], None]
    on_created: Callable[[], None]
    order: ProvisionOrder = ProvisionOrder()

    @property
    def kind(self) -> str:
        """The kind of object to create, for metrics."""
        return type(self.key).__name__.removesuffix("Key")
