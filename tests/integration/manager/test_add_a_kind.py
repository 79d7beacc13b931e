"""A new kind needs a package and one line: `toys` follows "Add a kind" in docs/development.md."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from controller.features import FEATURES
from controller.replica import Replica
from controller.settings import ControllerSettings
from rig import plain_http
from rig.api import Api
from rig.control_plane import ControlPlane
from rig.ports import LOOPBACK, free_port
from rig.processes import wait_until
from shared.api.crds import crd
from shared.kube.transport import connect
from shared.sources.settings import SourceSettings
from tests.integration.manager.toys.api import TOY
from tests.integration.manager.toys.controller import COLOUR_LABEL, toys_controller
from tests.readers.metrics import scrape

NAMESPACE = "toys"
SOON_S = 120.0
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
TOYS = TOY.path_in(NAMESPACE)

ALL_FEATURES = (*FEATURES, toys_controller)  # the one line


@pytest.fixture
def api(plane: ControlPlane) -> Api:
    return plane.api


@pytest.fixture
async def health(plane: ControlPlane) -> AsyncIterator[str]:
    """The address of metrics and health of a whole controller with the toys beside its own features."""
    plane.api.ensure("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    address = f"{LOOPBACK}:{free_port()}"
    settings = ControllerSettings(namespace=NAMESPACE, listen_health=address, lease_seconds=4, inference_services=True)
    async with connect(plane.kubeconfig) as kube:
        replica = Replica(settings, SourceSettings(), kube, "toys")
        replica.add(ALL_FEATURES)
        running = asyncio.create_task(replica.manager.run())
        yield f"http://{address}"
        running.cancel()
        await asyncio.wait({running})


async def until(holds: Callable[[], bool], what: str) -> None:
    await asyncio.to_thread(wait_until, holds, SOON_S, what)


def is_ready(health: str) -> bool:
    return plain_http.succeeds(f"{health}/readyz")


async def test_a_kind_added_as_a_package_is_reconciled(api: Api, health: str) -> None:
    def shown(name: str) -> str:
        found = next((m for m in api.get(MAPS)["items"] if m["metadata"]["name"] == name), None)
        return str(found["data"]["shown"]) if found else ""

    def reported(name: str) -> str:
        return str(api.get(f"{TOYS}/{name}").get("status", {}).get("shown", ""))

    def shows(text: str) -> bool:
        return reported("top") == shown("top") == text

    await until(lambda: is_ready(health), "the controller")
    api.ensure(CRDS, crd(TOY))  # it may come later than the controller
    await until(lambda: api.answers(TOYS), "the kind")
    about = {"apiVersion": f"{TOY.group}/{TOY.version}", "kind": TOY.kind, "metadata": {"name": "top"}}
    api.create(TOYS, about | {"spec": {"text": "spins"}})
    await until(lambda: shows("spins in plain"), "the toy")

    api.delete(f"{MAPS}/top")  # what it owns
    await until(lambda: shows("spins in plain"), "another ConfigMap")

    paint = {"metadata": {"name": "colour", "labels": {COLOUR_LABEL: "true"}}, "data": {"name": "red"}}
    api.create(MAPS, paint)  # what it watches
    await until(lambda: shows("spins in red"), "the toy")

    api.patch(f"{TOYS}/top", {"spec": {"text": "hums"}})  # what it is for
    await until(lambda: shows("hums in red"), "the toy")

    # A busy machine may lose the Lease for a moment.
    await until(lambda: scrape(health)["larder_leader"] == 1, "it to lead")
    found = await asyncio.to_thread(scrape, health)
    assert found['larder_reconcile_time_seconds_count{controller="toys"}'] >= 3
    assert found['larder_reconcile_total{controller="toys",result="success"}'] >= 3
