"""Many caches are created and deleted while the controller is killed: no crashes, leftovers or losses."""

import json
import random
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from rig.binaries import Binaries
from rig.errors import CallRefused
from rig.larder.objects import KINDS, path_of
from rig.larder.site import Site
from shared.json_object import Json
from shared.names import ready_label
from tests.integration.system.sites import GPU, opened

KIND = "ClusterModelCache"
CACHES, CLIENTS, ROUNDS, KILLS = 40, 20, 2, 2
NODE = "a"
_GONE_S = 300.0  # a node may request credentials once a second, and some do before their cache is deleted
Work = Callable[[], object]


@pytest.fixture(scope="module")
def churned(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster of one node and one controller, which may be killed."""
    settings = {"LARDER_DRAIN_SECONDS": "1", "LARDER_LEASE_SECONDS": "4"}
    with opened(binaries, tmp_path_factory.mktemp("churned"), settings, {NODE: GPU}, replicas=1) as site:
        yield site


def sources(site: Site) -> list[str]:
    """Return URIs of a few tiny models with contents in common, so that caches share files."""
    shared = {f"shared-{i}.bin": bytes([i]) * 1000 for i in range(3)}
    return [site.push(files={"config.json": b"{}", "own.bin": bytes([i]) * 2000, **shared}) for i in range(5)]


def manifest(name: str, uri: str) -> Json:
    spec = {"storageUri": uri, "nodeGroup": "gpus"}
    return {"apiVersion": "serving.kserve.io/v1alpha1", "kind": KIND, "metadata": {"name": name}, "spec": spec}


def retry_until_accepted(site: Site, work: Work) -> None:
    """Retry until the controller answers admission again."""

    def is_done() -> bool:
        try:
            work()
        except CallRefused as refusal:
            if "failed calling webhook" not in str(refusal):
                raise
            return False
        return True

    site.until(is_done, "admission to answer")


def kill_the_controller(site: Site, chance: random.Random) -> None:
    (controller,) = site.cluster.controllers
    time.sleep(chance.uniform(0.1, 1.0))  # kills at random moments are the point of this test
    controller.process.kill()
    controller.start()


def events_of(site: Site) -> list[Json]:
    """Return the log of the agent, which must be lines of JSON."""
    return [json.loads(line) for line in site.cluster.agents[NODE].log.read_text().splitlines()]


def assert_only(site: Site, kept: Mapping[str, str], pid: int) -> None:
    """Wait until only the kept caches are left, and assert that they are complete and no program crashed."""
    for name in kept:
        site.wait_ready(KIND, name)

    def caches() -> set[str]:
        return {cache["metadata"]["name"] for cache in site.api.get(KINDS[KIND])["items"]}

    site.until(lambda: caches() == set(kept), "caches to be gone", _GONE_S)

    def entries(part: str) -> set[str]:
        return {entry["id"] for entry in site.get("ModelNode", NODE).get(part, {}).get("entries", [])}

    site.until(lambda: entries("spec") == entries("status") == set(kept), "the entries of the ModelNode to be gone")
    store = site.store(NODE)
    site.until(lambda: {p.name for p in (store / "models").iterdir()} == set(kept), "their files to be gone")
    folders = {site.snapshot(NODE, name, site.status(KIND, name)["servingRevision"]) for name in kept}
    inodes = {p.stat().st_ino for folder in folders for p in folder.iterdir() if p.name != ".completed"}
    blobs = store / "blobs" / "sha256"

    def is_swept() -> bool:
        with suppress(FileNotFoundError):  # the agent has just removed one of them
            return {p.stat().st_ino for p in blobs.iterdir()} == inodes
        return False

    site.until(is_swept, "the unlinked blobs to be gone")
    site.until(lambda: not any((store / "partial").iterdir()), "the unfinished files to be gone")
    labels = {ready_label(name) for name in kept}
    site.until(
        lambda: {k for k in site.labels(NODE) if k.startswith("model-cache-ready-")} == labels, "labels to be gone"
    )
    for name, uri in kept.items():
        folder = site.snapshot(NODE, name, site.status(KIND, name)["servingRevision"])
        assert {p.name for p in folder.iterdir()} >= {"config.json", "own.bin", "shared-2.bin", ".completed"}, uri
    agent = site.cluster.agents[NODE].process
    assert (agent.pid, agent.exit_code) == (pid, None)
    assert [event for event in events_of(site) if event["level"] in ("error", "critical")] == []
    for program in site.cluster.controllers:
        assert program.process.exit_code is None
        assert "Traceback" not in program.log.read_text()


def test_only_kept_models_remain_after_concurrent_changes_and_controller_kills(churned: Site) -> None:
    site, chance = churned, random.Random(11)
    agent, uris = site.cluster.agents[NODE].process, sources(churned)
    kept = {site.cache(uris[0], name=site.name("kept")): uris[0]}

    def create_and_delete(uri: str, pause_s: float) -> None:
        name = site.name("gone")
        retry_until_accepted(site, lambda: site.api.ensure(KINDS[KIND], manifest(name, uri)))
        time.sleep(pause_s)  # in this time, the cache is resolved, downloading, or on the node
        retry_until_accepted(site, lambda: site.api.delete(path_of(KIND, name)))

    with ThreadPoolExecutor(CLIENTS) as clients:
        for _ in range(ROUNDS):
            tasks = [
                clients.submit(create_and_delete, chance.choice(uris), chance.uniform(0, 3)) for _ in range(CACHES)
            ]
            name, uri = site.name("kept"), chance.choice(uris)
            for _ in range(KILLS):
                kill_the_controller(site, chance)
            retry_until_accepted(site, lambda name=name, uri=uri: site.api.ensure(KINDS[KIND], manifest(name, uri)))  # type: ignore[misc]
            kept[name] = uri
            for task in tasks:
                task.result()
    assert_only(site, kept, agent.pid)
    for name in kept:
        site.delete(KIND, name)
    assert_only(site, {}, agent.pid)


def test_models_created_and_deleted_in_quick_succession_leave_nothing_behind(churned: Site, binaries: Binaries) -> None:
    site, chance = churned, random.Random(12)
    agent, uris = site.cluster.agents[NODE].process, sources(churned)
    kept = {site.cache(uris[0], name=site.name("kept")): uris[0]}
    kubectl = [str(binaries.kubectl), f"--kubeconfig={site.cluster.plane.kubeconfig}"]
    for _ in range(ROUNDS):
        items = [manifest(site.name("gone"), chance.choice(uris)) for _ in range(CACHES)]
        listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()
        subprocess.run([*kubectl, "create", "-f", "-"], input=listed, check=True, capture_output=True)  # noqa: S603 - the rig's own kubectl
        time.sleep(chance.uniform(0, 1))  # deletions at random moments are the point of this test
        gone = [*kubectl, "delete", "--wait=false", "-f", "-"]
        subprocess.run(gone, input=listed, check=True, capture_output=True)  # noqa: S603 - as above
    assert_only(site, kept, agent.pid)
