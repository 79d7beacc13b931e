"""Who may download, as nodes work, stall, leave and lose their disks."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller.groups.grants import GrantsReconciler
from controller.state.cluster_state import ClusterState
from controller.state.progress import ProgressTracker
from shared.api.model_node import PATH, Entry
from shared.api.wire import EntryProgress
from shared.kube.transport import Kube
from tests.builders.api_server import Objects, listed, serving
from tests.builders.cluster import cache, entry, entry_status, fresh_cluster, group, model_node, node, pod

KEY = ("m", "r1")


class Cluster:
    """Nodes with agents in a group that lets one download at a time; `kube` has the objects that a takeover reads."""

    def __init__(self, kube: Kube, *names: str, most: int = 1) -> None:
        self.now = 0.0
        self.cluster: ClusterState = fresh_cluster(lambda: self.now)
        self.progress = ProgressTracker(lambda: self.now, lambda *_: None)
        self.asked: list[str] = []
        self.granted: set[str] = set()
        self.turn = GrantsReconciler(
            self.cluster, kube, self.progress, self.granted, self.asked.append, 120, 600, 3600, sleep=self.sleep
        )
        self.slept = 0
        self.cluster.groups.upsert(group("g", {}, max_concurrent_nodes=most))
        self.cluster.cluster_model_caches.upsert(cache("m", "g"))
        for name in names:
            self.cluster.nodes.upsert(node(name))
            self.cluster.agents.upsert(pod(f"agent-{name}", name))

    async def sleep(self, _seconds: float) -> None:
        self.slept += 1
        for name in ("a", "b"):
            self.write(name, granted=name == "a")  # the watch catches up

    def write(self, name: str, phase: str = "", *, granted: bool | None = None, since: str = "") -> None:
        """Write spec and status of a node; by default, the spec has the decided grant."""
        wanted_entry: Entry = entry("m", granted=name in self.granted if granted is None else granted, since=since)
        self.cluster.model_nodes.upsert(
            model_node(name, wanted_entry, reported=[entry_status("m", phase)] if phase else [])
        )

    async def look(self) -> set[str]:
        """Run one reconcile, and return the nodes that may download."""
        self.asked.clear()
        self.again_s = await self.turn.reconcile()
        return set(self.granted)


@pytest.fixture
def objects() -> Objects:
    return Objects()


@pytest.fixture
async def two(objects: Objects, tmp_path: Path) -> AsyncIterator[Cluster]:
    async with serving(objects, tmp_path) as kube:
        yield Cluster(kube, "a", "b")


async def test_one_node_downloads_at_a_time_and_the_next_once_the_grant_is_released(two: Cluster) -> None:
    two.write("a", "Waiting")
    two.write("b", "Waiting")
    assert await two.look() == {"a"}
    assert two.asked == ["a"]
    two.write("a", "Downloading")
    assert await two.look() == {"a"}
    two.write("a", "Ready", granted=True)
    assert await two.look() == set()  # the grant is withdrawn, but the spec may not be written yet
    assert two.asked == ["a"]
    assert two.again_s == 0.5
    two.write("a", "Ready", granted=False)
    assert await two.look() == {"b"}


async def test_a_failed_entry_keeps_the_slot_until_its_spec_is_written(two: Cluster) -> None:
    two.write("a", "Failed", granted=True)
    two.write("b", "Waiting")
    assert await two.look() == set()
    assert two.asked == ["a"]
    assert await two.look() == set()
    two.write("a", "Failed", granted=False)
    assert await two.look() == {"b"}


async def test_an_old_progress_report_does_not_keep_a_node_from_a_grant(two: Cluster) -> None:
    """An agent reports progress only while it downloads, so the last report of an earlier model is old by then."""
    two.write("a", "Waiting")
    two.progress.report("a", [EntryProgress("old", "r1", 10, 10)], {("old", "r1"): 10})
    two.now = 100_000
    assert await two.look() == {"a"}


async def test_a_holder_that_makes_no_progress_gives_way_and_comes_after_the_others(two: Cluster) -> None:
    for name in ("a", "b"):
        two.write(name, "Waiting", since="2026-01-01T00:00:00Z")
    assert await two.look() == {"a"}
    two.write("a", "Downloading")
    two.now = 300
    two.progress.report("a", [EntryProgress(*KEY, 1, 10)], {KEY: 10})
    two.now = 850
    assert await two.look() == {"a"}  # it grew 550 s ago
    two.now = 901
    assert await two.look() == set()
    two.write("a", "Waiting")
    assert await two.look() == {"b"}
    two.write("b", "Ready")
    assert await two.look() == set()
    assert await two.look() == {"a"}


async def test_a_holder_that_never_reports_gives_way_too(two: Cluster) -> None:
    two.write("a", "Waiting")
    two.write("b", "Waiting")
    assert await two.look() == {"a"}
    two.write("a", "Waiting")
    two.now = 601
    assert await two.look() == set()


async def test_a_stalled_node_without_rivals_is_retried(two: Cluster) -> None:
    two.write("a", "Waiting")
    assert await two.look() == {"a"}
    two.write("a", "Downloading")
    two.now = 601
    assert await two.look() == set()
    two.write("a", "Downloading")
    assert await two.look() == {"a"}


async def test_a_lost_agent_releases_its_slot(two: Cluster) -> None:
    two.write("a", "Waiting")
    two.write("b", "Waiting")
    assert await two.look() == {"a"}
    two.write("a", "Downloading")
    two.cluster.agents.remove(pod("agent-a", "a").key)
    two.now = 119
    assert await two.look() == {"a"}
    two.now = 121
    assert await two.look() == set()
    two.write("a", "Downloading")
    assert await two.look() == {"b"}


async def test_a_node_that_lost_its_disk_waits_for_a_grant(two: Cluster) -> None:
    two.write("a", "Ready", granted=False)
    two.write("b", "Downloading", granted=True)
    assert await two.look() == {"b"}
    two.write("a", "Pending", granted=False)
    assert await two.look() == {"b"}


async def test_a_deleted_node_releases_its_slot(two: Cluster) -> None:
    two.write("a", "Waiting")
    two.write("b", "Waiting")
    assert await two.look() == {"a"}
    two.cluster.nodes.remove(node("a").key)
    two.cluster.model_nodes.remove(model_node("a").key)
    assert await two.look() == {"b"}
    assert set(two.turn._loads) == {"b"}


async def test_nodes_of_unlimited_groups_are_ignored(two: Cluster) -> None:
    two.cluster.groups.upsert(group("g", {}))
    two.write("a", "Waiting")
    assert await two.look() == set()
    assert two.again_s is None


async def test_grants_of_an_earlier_term_are_forgotten(two: Cluster, objects: Objects) -> None:
    two.write("a", "Waiting")
    assert await two.look() == {"a"}
    objects.objects[PATH] = listed()
    await two.turn.take_over()  # meanwhile, another leader moved the grant from a to b
    two.write("a", "Waiting", granted=False)
    two.write("b", "Downloading", granted=True)
    assert await two.look() == {"b"}


async def test_a_new_leader_waits_until_its_cache_has_the_last_writes(two: Cluster, objects: Objects) -> None:
    written = [{"metadata": {"name": name, "generation": 1}} for name in ("a", "b")]
    objects.objects[PATH] = listed(*written)
    await two.turn.take_over()
    assert two.slept == 1
    assert await two.look() == {"a"}


async def test_a_node_with_alternating_reports_does_not_hold_the_only_grant_forever(two: Cluster) -> None:
    for name in ("a", "b"):
        two.write(name, "Waiting", since="2026-01-01T00:00:00Z")
    assert await two.look() == {"a"}
    two.write("a", "Downloading")
    while two.now <= 600:
        two.now += 5
        two.progress.report("a", [], {KEY: 10})
        two.progress.report("a", [EntryProgress(*KEY, 0, 10)], {KEY: 10})
    assert await two.look() == set()
    two.write("a", "Waiting")
    assert await two.look() == {"b"}


async def test_a_node_that_downloads_almost_nothing_gives_way_after_an_hour(two: Cluster) -> None:
    for name in ("a", "b"):
        two.write(name, "Waiting", since="2026-01-01T00:00:00Z")
    assert await two.look() == {"a"}
    two.write("a", "Downloading")
    done = 0
    while two.now < 3600:
        two.now, done = two.now + 300, done + 1
        two.progress.report("a", [EntryProgress(*KEY, done, 10**9)], {KEY: 10**9})
        assert await two.look() == {"a"}
    two.now += 1
    assert await two.look() == set()
    two.write("a", "Waiting")
    assert await two.look() == {"b"}
