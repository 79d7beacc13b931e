"""The API server restarts, controllers and agents are killed, grants are limited: downloads continue correctly."""

import hashlib
import os
import random
import threading
import time

from rig.hub import Stall
from rig.larder.site import Site
from tests.integration.system.turns import assert_one_at_a_time, downloading


def test_models_are_served_after_the_api_server_restarts(site: Site) -> None:
    before = site.cache()
    site.wait_ready("ClusterModelCache", before)
    site.cluster.plane.restart_apiserver()
    after = site.cache()
    site.wait_ready("ClusterModelCache", after)
    site.wait_ready("ClusterModelCache", before)


def test_a_killed_leader_is_replaced(site: Site) -> None:
    leader = site.leader()
    leader.process.kill()
    other = next(c for c in site.cluster.controllers if c is not leader)
    site.cluster.aim_webhooks(other)
    name = site.cache()
    site.until(lambda: site.leader() is other, "the other replica to lead")
    leader.start()  # on the port that the agents use
    site.wait_ready("ClusterModelCache", name)
    site.cluster.aim_webhooks(site.cluster.controllers[0])


def test_a_group_limited_to_one_concurrent_node_downloads_one_node_at_a_time(site: Site) -> None:
    labels = {"slow": site.name("s")}
    group = site.group(labels, maxConcurrentNodes=1, bandwidthLimit="1500k")
    for node in ("a", "b", "c"):
        site.label(node, labels)
    name = site.cache(site.push(files={"w.bin": os.urandom(3_000_000)}), group=group)

    def all_ready() -> bool:
        busy = downloading(site, name)
        assert len(busy) <= 1, f"{busy} download at the same time"
        return site.status("ClusterModelCache", name).get("storageStatus") == "Ready"

    site.until(all_ready, "all nodes to have had their turn")
    assert_one_at_a_time(site, name, {"a", "b", "c"})
    for node in ("a", "b", "c"):
        site.label(node, {"slow": None})


def test_a_node_whose_agent_died_releases_its_download_slot(site: Site) -> None:
    labels = {"turn": site.name("t")}
    group = site.group(labels, maxConcurrentNodes=1)
    content = os.urandom(2_000_000)
    uri = site.push(files={"stalled.bin": content})
    site.hub.faults.add(Stall(100_000), f"*{hashlib.sha256(content).hexdigest()}", times=1)
    for node in ("a", "b"):
        site.label(node, labels)
    name = site.cache(uri, group=group)
    site.until(lambda: len(downloading(site, name)) == 1, "one node to download")
    (holder,) = downloading(site, name)
    other = "b" if holder == "a" else "a"
    site.cluster.agents[holder].process.kill()
    site.until(lambda: site.phases(other, name) == ["Ready"], "the other node to have its turn")
    site.hub.faults.clear()
    site.cluster.start_agent(holder)
    site.wait_ready("ClusterModelCache", name)
    for node in ("a", "b"):
        site.label(node, {"turn": None})


def test_an_agent_killed_at_random_moments_never_sets_a_label_before_its_files(site: Site) -> None:
    """A watcher continuously compares the disk with the label while the agent is killed repeatedly."""
    chance = random.Random(7)
    labels = {"killed": site.name("k")}
    group = site.group(labels, bandwidthLimit="4M")
    site.label("c", labels)
    files = {f"part-{i}.bin": chance.randbytes(1_500_000) for i in range(6)}
    name = site.cache(site.push(files=files), group=group)
    agent = site.cluster.agents["c"]
    lies: list[str] = []
    done = threading.Event()

    def complete() -> bool:
        revision = site.status("ClusterModelCache", name).get("resolvedRevision", "none")
        folder = site.snapshot("c", name, revision)
        return all((folder / p).exists() and (folder / p).stat().st_size == len(b) for p, b in files.items())

    def watch() -> None:
        while not done.is_set():
            revision = site.status("ClusterModelCache", name).get("resolvedRevision", "none")
            marked = (site.snapshot("c", name, revision) / ".completed").exists()
            labelled = f"model-cache-ready-{name}" in site.labels("c")
            if (marked or labelled) and not complete():
                lies.append(f"completed={marked} label={labelled}")
            done.wait(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(8):
            time.sleep(chance.uniform(0.1, 1.2))  # kills at random moments are the point of this test
            agent.process.kill()
            site.cluster.start_agent("c", wait=False)
        site.wait_ready("ClusterModelCache", name)
    finally:
        done.set()
        watcher.join()
    assert lies == []
    site.label("c", {"killed": None})
