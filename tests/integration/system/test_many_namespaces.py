"""500 namespaces request one model at once, and the leader dies while their claims are created."""

from collections import Counter
from collections.abc import Iterator

import pytest

from controller.provisioning.provisioner import MAX_IN_FLIGHT
from rig.binaries import Binaries
from rig.larder.programs import ControllerProgram
from rig.larder.site import Site
from rig.pods import base_model_pod
from rig.ports import LOOPBACK
from shared.json_object import Json
from tests.integration.system.leaderless import without_leader
from tests.integration.system.sites import GPU, opened
from tests.readers.metrics import scrape

MANY, RATE, BURST = 500, 25, 10
DEPTH, SERVED = 'larder_provisioner_depth{kind="Volume"}', 'larder_provisioner_wait_seconds_count{kind="Volume"}'


@pytest.fixture(scope="module")
def busy(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster that creates five times as many claims per second as by default."""
    settings = {
        "LARDER_LEASE_SECONDS": "4",
        "LARDER_VOLUMES_QPS": str(RATE),
        "LARDER_VOLUMES_BURST": str(BURST),
    }
    with opened(binaries, tmp_path_factory.mktemp("busy"), settings, {"a": GPU}) as site:
        yield site


def add_namespace(site: Site, name: str) -> None:
    """Create a namespace with its service account, so that its pods can be created at once."""
    site.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    site.api.ensure(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})


def add_pod(site: Site, namespace: str, model: str) -> None:
    """Create a pod that uses the model; the scheduler ignores it, since the nodes cannot hold so many."""
    pod = base_model_pod("web", model)
    pod["spec"]["schedulingGates"] = [{"name": "example.org/later"}]
    site.api.create(f"/api/v1/namespaces/{namespace}/pods", pod)


def claims(site: Site) -> list[Json]:
    found: list[Json] = site.api.get("/api/v1/persistentvolumeclaims")["items"]
    return found


def volumes(site: Site) -> list[Json]:
    found: list[Json] = site.api.get("/api/v1/persistentvolumes")["items"]
    return found


def metrics(program: ControllerProgram) -> dict[str, float]:
    return scrape(f"http://{LOOPBACK}:{program.health_port}")


def test_each_of_500_namespaces_gets_one_claim_although_the_leader_is_killed(busy: Site) -> None:
    model = busy.base_model(nodeSelector=GPU)
    busy.wait_ready("ClusterBaseModel", model)
    namespaces = [f"tenant-{number}" for number in range(MANY)]
    for name in namespaces:
        add_namespace(busy, name)
    with without_leader(busy):  # so that all request it at once, however slow this machine is
        for name in namespaces:
            add_pod(busy, name, model)
    busy.until(lambda: len(volumes(busy)) > BURST, "the first volumes")
    first = busy.leader()
    busy.until(lambda: metrics(first).get(DEPTH, 0) > MANY // 2, "most requests to be queued")
    first.process.kill()
    second = next(c for c in busy.cluster.controllers if c is not first)

    def all_bound() -> bool:
        return [claim["status"].get("phase") for claim in claims(busy)].count("Bound") == MANY

    def all_served() -> bool:
        shown = metrics(second)
        return shown.get(SERVED, 0) >= MANY // 2 and shown.get(DEPTH) == 0

    busy.until(all_served, "the other leader to serve the rest of the queue")
    busy.until(all_bound, "all claims to be bound")
    found = {claim["metadata"]["namespace"]: claim["spec"]["volumeName"] for claim in claims(busy)}
    assert found == {name: f"{model}-{name}" for name in namespaces}
    assert sorted(volume["metadata"]["name"] for volume in volumes(busy)) == sorted(found.values())
    a_second = Counter(volume["metadata"]["creationTimestamp"] for volume in volumes(busy))
    assert max(a_second.values()) <= RATE + BURST + MAX_IN_FLIGHT
