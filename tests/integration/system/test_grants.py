"""At most so many nodes of a group download at one time, whoever joins and whoever leads."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rig.larder.programs import ControllerProgram
from rig.larder.site import Site

NODES = ("a", "b", "c")
LEASE = "/apis/coordination.k8s.io/v1/namespaces/larder-system/leases/larder-controller"


def granted(site: Site, model: str) -> set[str]:
    """The nodes whose spec lets them download, and that have not finished."""
    found = set()
    for name in NODES:
        node = site.get("ModelNode", name)
        phases = {e["id"]: e.get("phase", "Pending") for e in node.get("status", {}).get("entries", [])}
        for entry in node.get("spec", {}).get("entries", []):
            if entry["id"] == model and entry.get("granted") and phases.get(model) != "Ready":
                found.add(name)
    return found


def busy(site: Site, model: str) -> set[str]:
    return {name for name in NODES if "Downloading" in site.phases(name, model)}


@contextmanager
def watched(site: Site, model: str) -> Iterator[set[str]]:
    """Look all the time that never two nodes download; give the set of those that did."""
    seen: set[str] = set()
    crowds: list[set[str]] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            now = busy(site, model)
            seen.update(now)
            crowds.extend(crowd for crowd in (now, granted(site, model)) if len(crowd) > 1)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()
    assert crowds == []


@pytest.fixture
def slow(site: Site) -> Iterator[tuple[str, str]]:
    """A group that no node belongs to yet, and a cache for it that takes each node two seconds."""
    label = site.name("t")
    group = site.group({"turns": label}, maxConcurrentNodes=1, bandwidthLimit="1500k")
    name = site.cache(site.push(files={"w.bin": random.Random(1).randbytes(3_000_000)}), group=group)
    site.until(lambda: "resolvedRevision" in site.status("ClusterModelCache", name), "the cache to be resolved")
    yield label, name
    for node in NODES:
        site.label(node, {"turns": None})


def join(site: Site, label: str) -> None:
    for node in NODES:
        site.label(node, {"turns": label})


def test_nodes_that_join_at_once_take_turns(site: Site, slow: tuple[str, str]) -> None:
    label, name = slow
    with watched(site, name) as seen:
        join(site, label)
        site.wait_ready("ClusterModelCache", name, within_s=60)
    assert seen == set(NODES)


def leader(site: Site) -> ControllerProgram:
    holder = site.api.get(LEASE)["spec"]["holderIdentity"].partition("_")[0]
    return next(c for c in site.cluster.controllers if c.name == holder)


def test_a_leader_that_is_killed_takes_no_turn_with_it(site: Site, slow: tuple[str, str]) -> None:
    label, name = slow
    first = leader(site)
    other = next(c for c in site.cluster.controllers if c is not first)
    with watched(site, name):
        join(site, label)
        site.until(lambda: len(busy(site, name)) == 1, "one node to download")
        site.cluster.aim_webhooks(other)
        first.process.kill()
        site.until(lambda: leader(site) is other, "the other replica to lead")
        first.start()
        site.wait_ready("ClusterModelCache", name, within_s=90)
    site.cluster.aim_webhooks(site.cluster.controllers[0])
