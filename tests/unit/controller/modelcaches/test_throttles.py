"""The throttles of node groups apply to downloads to claims."""

from datetime import timedelta

import pytest

from controller.modelcaches.throttles import holds_slot, rate_limit, why_wait
from tests.builders.model_caches import NOW, job, pod


@pytest.mark.parametrize(("limits", "found"), [([], 0), ([0, 0], 0), ([0, 5, 9], 5)])
def test_the_slowest_node_sets_the_rate_limit(limits: list[int], found: int) -> None:
    assert rate_limit(limits) == found


def test_a_group_bounds_its_concurrent_downloads() -> None:
    running = [("a", {"gpus"}), ("b", {"gpus", "cpus"})]
    assert why_wait("c", {"gpus": 3}, running) == ""
    assert "gpus allows 2" in why_wait("c", {"gpus": 2}, running)
    assert why_wait("c", {"cpus": 2}, running) == ""
    assert why_wait("c", {"gpus": 0}, running * 9) == ""


def test_the_last_slot_is_left_for_another_namespace() -> None:
    running = [("a", {"gpus"}), ("a", {"gpus"})]
    assert why_wait("a", {"gpus": 3}, running)
    assert why_wait("b", {"gpus": 3}, running) == ""


@pytest.mark.parametrize("most", range(2, 9))
def test_a_namespace_that_runs_more_jobs_than_it_may_leaves_the_slots_of_others_free(most: int) -> None:
    """A tenant can suspend Jobs until all are created, and then resume them at once, or create some of its own."""
    running = [("a", {"gpus"})] * 100
    assert why_wait("b", {"gpus": most}, running) == ""
    assert why_wait("a", {"gpus": most}, running)


@pytest.mark.parametrize("most", range(1, 9))
def test_the_slots_that_a_namespace_gets_by_itself_all_count(most: int) -> None:
    running: list[tuple[str, set[str]]] = []
    for namespace in ("a", "b", "c", "d", "e"):
        while not why_wait(namespace, {"gpus": most}, running):
            running.append((namespace, {"gpus"}))
    assert len(running) == most


def test_a_job_that_outlives_its_deadline_gives_its_slot_to_others() -> None:
    """Its namespace may change the deadline, or replace the Job by one that never ends."""
    assert holds_slot(job(), (pod("Running"),), NOW + timedelta(hours=5))
    assert not holds_slot(job(), (pod("Running"),), NOW + timedelta(hours=7))


def test_a_download_that_cannot_start_gives_its_slot_to_others() -> None:
    soon, later = NOW + timedelta(seconds=30), NOW + timedelta(minutes=3)
    assert holds_slot(job(), (), soon)
    assert holds_slot(job(), (pod("Pending"),), soon)
    assert not holds_slot(job(), (pod("Pending"),), later)
    assert holds_slot(job(), (pod("Pending"), pod("Running")), later)
    assert not holds_slot(job("Failed"), (pod("Running"),), soon)
    assert not holds_slot(None, (), soon)
