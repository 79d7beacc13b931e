"""How `tests/workers.py` distributes tests."""

from pathlib import Path

import pytest

from tests.workers import LONGEST, OWN_CLUSTERS, next_unit, rank, unit

SYSTEM, CLUSTER = "tests/integration/system/test_x.py", "tests/integration/kube/test_x.py"
UNIT, NODES = "tests/unit/test_x.py", "tests/e2e/devices"
ALL = [UNIT, SYSTEM, CLUSTER, NODES]


@pytest.mark.parametrize(("worker", "taken"), [(0, NODES), (3, NODES), (4, UNIT), (5, SYSTEM), (9, SYSTEM)])
def test_four_workers_start_with_nodes_and_one_with_unit_tests_and_others_with_the_system(
    worker: int, taken: str
) -> None:
    assert next_unit(ALL, worker) == taken


@pytest.mark.parametrize(("worker", "taken"), [(1, SYSTEM), (2, CLUSTER), (4, CLUSTER), (5, SYSTEM)])
def test_half_of_the_workers_continue_with_the_system_and_half_with_other_clusters(worker: int, taken: str) -> None:
    assert next_unit([SYSTEM, CLUSTER], worker) == taken


@pytest.mark.parametrize("worker", [0, 2, 4, 5])
def test_every_worker_takes_whatever_is_left_but_only_the_first_four_take_nodes(worker: int) -> None:
    assert all(next_unit([kept], worker) == kept for kept in (UNIT, SYSTEM, CLUSTER))
    assert next_unit([NODES], worker) == (NODES if worker < 4 else None)
    assert next_unit([], worker) is None


def test_a_worker_takes_units_of_the_same_kind_in_their_order() -> None:
    assert next_unit([UNIT, f"{SYSTEM}1", f"{SYSTEM}2"], 5) == f"{SYSTEM}1"


@pytest.mark.parametrize("listed", [*LONGEST, *OWN_CLUSTERS])
def test_every_listed_unit_exists_and_is_assigned_as_a_whole(listed: str) -> None:
    path = Path(__file__).parents[2] / listed
    assert path.exists(), f"{listed} in tests/workers.py was moved or removed"
    test = f"{listed}::test_x" if path.is_file() else f"{listed}/test_x.py::test_x"
    assert unit(test) == listed


def test_long_units_start_first() -> None:
    long, longest = f"{LONGEST[1]}/test_x.py", f"{LONGEST[0]}/test_x.py"
    assert sorted([UNIT, SYSTEM, long, longest], key=rank) == [longest, long, UNIT, SYSTEM]


def test_system_tests_with_clusters_of_their_own_are_taken_like_other_cluster_tests() -> None:
    assert next_unit([SYSTEM, OWN_CLUSTERS[0]], 2) == OWN_CLUSTERS[0]
