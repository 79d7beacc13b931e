"""The results of creations that a reconciler gets."""

import asyncio

import structlog
from prometheus_client import CollectorRegistry

from controller.modeloperator.keys import ModelObjectKey
from controller.provisioning.creations import Creations
from controller.provisioning.provision_queue import ProvisionOrder
from controller.provisioning.provisioner import Provisioner, ProvisionSettings
from shared.kube.errors import Refused

KEY = ModelObjectKey("team", "llama")


async def test_a_refused_claim_is_remembered_until_created_and_both_results_wake_the_key() -> None:
    clock, internal, woken = asyncio.get_running_loop().time, list[object](), asyncio.Queue[ModelObjectKey]()
    settings = ProvisionSettings(rate=1e6, burst=1e6, settle_s=0)
    provisioner = Provisioner(settings, clock, CollectorRegistry(), lambda *found: internal.append(found))
    creations = Creations(provisioner, woken.put_nowait, clock)
    outcomes: list[Refused | None] = [Refused("exceeded quota", 403), None]

    async def create() -> None:
        if (error := outcomes.pop(0)) is not None:
            raise error

    def request() -> None:
        creations.request(KEY, create, ProvisionOrder(), woken.put_nowait, {"model": "team/llama"})

    with structlog.testing.capture_logs() as logs:
        task = asyncio.create_task(provisioner.run())
        request()
        assert creations.position(KEY) == 1
        assert await woken.get() == KEY
        failure = creations.failure(KEY)
        assert failure is not None
        assert "exceeded quota" in failure.message
        assert creations.position(KEY) is None
        request()
        assert await woken.get() == KEY
        assert creations.failure(KEY) is None
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [(log["event"], log["model"]) for log in logs] == [
        ("claim_not_created", "team/llama"),
        ("claim_created", "team/llama"),
    ]
    assert (outcomes, internal) == ([], [])
