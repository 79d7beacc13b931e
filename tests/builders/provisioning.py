"""A provisioner whose queue a test fills before it is served."""

import asyncio
from collections.abc import Hashable

from prometheus_client import CollectorRegistry

from controller.provisioning.provision_queue import ProvisionOrder
from controller.provisioning.provision_request import ProvisionRequest
from controller.provisioning.provisioner import Provisioner, ProvisionSettings


def provisioner() -> Provisioner:
    """Return a provisioner that serves nothing until `serve` is called."""
    settings = ProvisionSettings(rate=1e6, burst=1e6, settle_s=0)
    return Provisioner(settings, asyncio.get_running_loop().time, CollectorRegistry(), lambda *_: None)


async def serve(queue: Provisioner, flow: Hashable) -> None:
    """Serve everything that waits in a flow."""
    ended = asyncio.Event()

    async def end() -> None:
        ended.set()

    last = ProvisionOrder(created="9999")
    queue.request(ProvisionRequest("last", flow, end, lambda _: None, lambda: None, last))
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(queue.run())
        await ended.wait()
        serving.cancel()
