"""The number of nodes of a group that download at a time is limited, whichever nodes join and replicas lead."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rig.larder.site import Site
from tests.integration.system.turns import assert_one_at_a_time, downloading, granted

NODES = ("a", "b", "c")


@contextmanager
def watched(site: Site, model: str) -> Iterator[None]:
    """Check continuously that at most one node downloads or is granted a download."""
    crowds: list[set[str]] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            crowds.extend(crowd for look in (downloading, granted) if len(crowd := look(site, model)) > 1)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    assert crowds == []


@pytest.fixture
def slow(site: Site) -> Iterator[tuple[str, str]]:
    """A group without nodes yet, and a cache for it that each node downloads in two seconds."""
    label = site.name("t")
    group = site.group({"turns": label}, maxConcurrentNodes=1, bandwidthLimit="1500k")
    name = site.cache(site.push(files={"w.bin": os.urandom(3_000_000)}), group=group)  # files that no node has yet
    site.until(lambda: "resolvedRevision" in site.status("ClusterModelCache", name), "the cache to be resolved")
    yield label, name
    for node in NODES:
        site.label(node, {"turns": None})


def join(site: Site, label: str) -> None:
    for node in NODES:
        site.label(node, {"turns": label})


def test_nodes_that_join_together_are_granted_in_turn(site: Site, slow: tuple[str, str]) -> None:
    label, name = slow
    with watched(site, name):
        join(site, label)
        site.wait_ready("ClusterModelCache", name)
    assert_one_at_a_time(site, name, set(NODES))


def test_nodes_still_download_one_at_a_time_after_the_leader_was_killed(site: Site, slow: tuple[str, str]) -> None:
    label, name = slow
    first = site.leader()
    other = next(c for c in site.cluster.controllers if c is not first)
    with watched(site, name):
        join(site, label)
        site.until(lambda: len(downloading(site, name)) == 1, "one node to download")
        site.cluster.aim_webhooks(other)
        first.process.kill()
        site.until(lambda: site.leader() is other, "the other replica to lead")
        first.start()
        site.wait_ready("ClusterModelCache", name)
    assert_one_at_a_time(site, name, set(NODES))
    site.cluster.aim_webhooks(site.cluster.controllers[0])
