"""The queue of claims on a real API server, with a consumer in a separate process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.binaries import Binaries
from rig.control_plane import ControlPlane
from rig.processes import wait_until
from tests.bench.claims.measure import ClaimQueue, kill_twice

QPS = 20
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@pytest.fixture
def queue(binaries: Binaries, tmp_path: Path) -> Iterator[ClaimQueue]:
    """A queue on a separate control plane, whose API server the tests restart."""
    with ControlPlane(binaries, tmp_path / "plane") as plane:
        made = ClaimQueue(plane, tmp_path, QPS)
        yield made
        made.kill()


def test_200_claims_are_created_in_order_within_the_rate_although_two_consumers_die(
    queue: ClaimQueue,
) -> None:
    queue.add_owners(200, ["red", "green", "blue"])
    found = kill_twice(queue, 200)
    assert (found.claims, found.twice, found.out_of_order) == (200, 0, 0)
    assert found.per_second <= QPS * 1.05


def test_a_restart_of_the_api_server_loses_and_repeats_no_claim(queue: ClaimQueue) -> None:
    queue.add_owners(500, ["red", "green"])
    with queue.running():
        queue.wait(50, within_s=60)
        queue.plane.restart_apiserver()
        queue.wait(500, within_s=180)
        found = queue.result()
    assert (found.claims, found.twice, found.out_of_order) == (500, 0, 0)


def test_owners_that_are_deleted_while_they_wait_get_no_claim(queue: ClaimQueue) -> None:
    queue.qps = 4  # so that they wait for ten seconds, in which even a busy machine deletes them
    queue.add_owners(60, ["red"])
    queue.plane.stop_controller_manager()  # nothing collects claims
    deleted = {f"red/owner-{number:05}" for number in range(50, 60)}
    with queue.running():
        queue.wait(1, within_s=60)
        for owner in deleted:
            queue.plane.api.delete(f"/api/v1/namespaces/red/configmaps/{owner.partition('/')[2]}")
        queue.wait(50, within_s=60)
        queue.add_owners(1, ["green"])  # is served after whatever is left
        queue.wait(51, within_s=60)
    assert not deleted & queue.claims().keys()


def test_a_quota_or_a_failing_webhook_of_one_namespace_does_not_delay_others(queue: ClaimQueue) -> None:
    api = queue.plane.api
    for name in ("poor", "hooked"):
        api.ensure("/api/v1/namespaces", {"metadata": {"name": name, "labels": {"hooked": str(name == "hooked")}}})
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"persistentvolumeclaims": "0"}}}
    api.create("/api/v1/namespaces/poor/resourcequotas", quota)
    wait_until(lambda: "hard" in api.get("/api/v1/namespaces/poor/resourcequotas/none")["status"], 60, "the quota")
    hook = {
        "name": "down.example.org",
        "clientConfig": {"url": "https://127.0.0.1:1/nobody"},
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["persistentvolumeclaims"],
            }
        ],
        "namespaceSelector": {"matchLabels": {"hooked": "True"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    api.create(WEBHOOKS, {"metadata": {"name": "down"}, "webhooks": [hook]})
    queue.add_owners(120, ["poor", "hooked", "red"])
    with queue.running():
        wait_until(lambda: sum(owner.startswith("red/") for owner in queue.claims()) == 40, 30, "the claims of red")
        found = queue.claims()
        assert all(owner.startswith("red/") for owner in found)
        wait_until(lambda: bool(queue.events("failed")[0]), 60, "the refusal by the quota")
        api.delete(f"{WEBHOOKS}/down")
        wait_until(lambda: sum(owner.startswith("hooked/") for owner in queue.claims()) == 40, 90, "the others")
