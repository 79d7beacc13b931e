"""Drift of a source is reported by a condition, followed on request, and never makes a model fail."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from rig.binaries import Binaries
from rig.demo.parts import SECRET
from rig.hub.faults import Refuse
from rig.larder.objects import path_of
from rig.larder.programs import NAMESPACE
from rig.larder.site import Site
from tests.integration.system.sites import GPU, opened

KIND = "ClusterBaseModel"
PERIOD_S, PAUSE_S = 0.5, 5.0


@pytest.fixture(scope="module")
def watched(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster of one node whose controller checks sources about twice a second."""
    settings = {"LARDER_DRAIN_SECONDS": "1", "LARDER_LEASE_SECONDS": "4", "LARDER_DRIFT_CHECK_SECONDS": str(PERIOD_S)}
    with opened(binaries, tmp_path_factory.mktemp("watched"), settings, {"a": GPU}, replicas=1) as site:
        yield site


@pytest.fixture(autouse=True)
def _without_faults(watched: Site) -> Iterator[None]:
    yield
    watched.hub.faults.clear()


def drifted(site: Site, name: str) -> dict[str, Any]:
    conditions = site.status(KIND, name).get("conditions", [])
    found: dict[str, Any] = next((c for c in conditions if c["type"] == "Drifted"), {"status": ""})
    return found


def wait_drifted(site: Site, name: str, status: str) -> dict[str, Any]:
    site.until(lambda: drifted(site, name)["status"] == status, f"Drifted to be {status}")
    return drifted(site, name)


def repo_of(uri: str) -> str:
    return uri.removeprefix("hf://")


def manifests(site: Site) -> int:
    found = site.api.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps?labelSelector=larder.dev/kind=manifest")
    return len(found["items"])


def annotate(site: Site, name: str, key: str, value: str) -> None:
    site.api.patch(path_of(KIND, name), {"metadata": {"annotations": {f"larder.dev/{key}": value}}})


def test_a_moved_branch_is_reported_but_the_serving_revision_stays(watched: Site) -> None:
    uri = watched.push()
    repo, name = repo_of(uri), watched.base_model(uri, nodeSelector=GPU)
    old = watched.wait_ready(KIND, name)["resolvedRevision"]
    wait_drifted(watched, name, "False")
    kept = manifests(watched)
    watched.hub.journal.clear()

    watched.push(repo=repo)
    new = watched.hub.head(repo)
    reported = wait_drifted(watched, name, "True")
    assert reported["reason"] == "SourceMoved"
    assert old in reported["message"]
    assert new in reported["message"]
    assert "larder.dev/refresh" in reported["message"]
    status = watched.status(KIND, name)
    assert (status["resolvedRevision"], status["servingRevision"], status["upstreamRevision"]) == (old, old, new)
    assert watched.ready_condition(KIND, name)["status"] == "True"
    assert watched.hub.journal.requests(f"/api/models/{repo}/tree/*") == []
    assert manifests(watched) == kept

    watched.hub.move(repo, old)
    wait_drifted(watched, name, "False")
    watched.hub.move(repo, new)
    wait_drifted(watched, name, "True")
    annotate(watched, name, "refresh", "take-it")
    watched.until(lambda: watched.status(KIND, name)["servingRevision"] == new, "the new revision to serve")
    assert drifted(watched, name)["status"] == "False"


def test_a_model_that_follows_its_branch_serves_the_new_revision(watched: Site) -> None:
    uri = watched.push()
    name = watched.base_model(uri, nodeSelector=GPU)
    old = watched.wait_ready(KIND, name)["resolvedRevision"]
    annotate(watched, name, "drift", "Follow")
    watched.push(repo=repo_of(uri))
    new = watched.hub.head(repo_of(uri))
    assert new != old
    watched.until(lambda: watched.status(KIND, name)["servingRevision"] == new, "the new revision to serve")
    wait_drifted(watched, name, "False")


def test_a_failed_drift_check_leaves_a_ready_model_ready(watched: Site) -> None:
    uri = watched.push()
    name = watched.base_model(uri, nodeSelector=GPU)
    watched.wait_ready(KIND, name)
    watched.hub.faults.add(Refuse(503), f"/api/models/{repo_of(uri)}/*")
    assert wait_drifted(watched, name, "Unknown")["reason"] == "Unreachable"
    assert watched.ready_condition(KIND, name)["status"] == "True"
    watched.hub.faults.clear()
    wait_drifted(watched, name, "False")


def test_drift_checks_pause_for_all_models_of_a_rate_limiting_server(watched: Site) -> None:
    uri, other = watched.push(), watched.push()
    name, neighbour = watched.base_model(uri, nodeSelector=GPU), watched.base_model(other, nodeSelector=GPU)
    for model in (name, neighbour):
        watched.wait_ready(KIND, model)
        wait_drifted(watched, model, "False")
    began = time.monotonic()
    watched.hub.faults.add(Refuse(429, retry_after_s=PAUSE_S), f"/api/models/{repo_of(uri)}/*", times=1)
    assert wait_drifted(watched, name, "Unknown")["reason"] == "RateLimited"
    watched.hub.journal.clear()
    wait_drifted(watched, name, "False")  # checked again, after five seconds at the earliest
    looks = [len(watched.hub.journal.requests(f"/api/models/{repo_of(one)}/*")) for one in (uri, other)]
    since_s = time.monotonic() - began - PAUSE_S
    assert since_s > 0, "checked too early"
    assert max(looks) <= 2 + since_s / (0.8 * PERIOD_S), "without the pause, there are about ten checks in five seconds"
    assert watched.ready_condition(KIND, neighbour)["status"] == "True"


def test_a_model_pinned_to_a_commit_is_never_checked_for_drift(watched: Site) -> None:
    uri = watched.push()
    repo = repo_of(uri)
    name = watched.base_model(f"{uri}@{watched.hub.head(repo)}", nodeSelector=GPU)
    watched.wait_ready(KIND, name)
    moving = watched.base_model(watched.push(), nodeSelector=GPU)
    watched.wait_ready(KIND, moving)
    watched.hub.journal.clear()
    for status in ("False", "Unknown", "False"):  # several checks of the one that moves
        if status == "Unknown":
            watched.hub.faults.add(Refuse(503), "/api/models/*")
        else:
            watched.hub.faults.clear()
        wait_drifted(watched, moving, status)
    assert watched.hub.journal.requests(f"/api/models/{repo}/*") == []
    assert drifted(watched, name)["status"] == ""


def test_a_change_in_a_bucket_is_reported_as_drift(watched: Site) -> None:
    uri = watched.upload()
    bucket = uri.removeprefix("s3://").partition("/")[0]
    name = watched.base_model(uri, key=SECRET, nodeSelector=GPU)
    old = watched.wait_ready(KIND, name)["resolvedRevision"]
    wait_drifted(watched, name, "False")
    watched.s3.put(bucket, "model/extra.json", b"{}")
    wait_drifted(watched, name, "True")
    annotate(watched, name, "refresh", "1")
    watched.until(lambda: watched.status(KIND, name)["servingRevision"] != old, "the new revision to serve")
    assert drifted(watched, name)["status"] == "False"
