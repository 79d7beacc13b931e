"""How `tests/workers.py` shares out tests."""

from pathlib import Path

import pytest

from tests.workers import LONGEST, LONGEST_OF_SYSTEM, next_unit, rank, unit

SYSTEM, UNIT, NODES = "tests/integration/system/test_x.py", "tests/unit/test_x.py", "tests/e2e/devices"


@pytest.mark.parametrize(("worker", "taken"), [(0, NODES), (3, NODES), (4, UNIT), (5, None), (6, None)])
def test_while_node_tests_wait_four_workers_take_them_and_one_takes_unit_tests(worker: int, taken: str | None) -> None:
    assert next_unit([UNIT, SYSTEM, NODES], worker) == taken


@pytest.mark.parametrize("worker", [0, 4, 6])
def test_without_node_tests_every_worker_takes_cluster_tests_first(worker: int) -> None:
    assert next_unit([UNIT, SYSTEM], worker) == SYSTEM
    assert next_unit([UNIT], worker) == UNIT
    assert next_unit([], worker) is None


@pytest.mark.parametrize("listed", [*LONGEST, *LONGEST_OF_SYSTEM])
def test_every_listed_unit_exists_and_is_handed_out_as_a_whole(listed: str) -> None:
    path = Path(__file__).parents[2] / listed
    assert path.exists(), f"{listed} in tests/workers.py was moved or removed"
    test = f"{listed}::test_x" if path.is_file() else f"{listed}/test_x.py::test_x"
    assert unit(test) == listed


def test_long_units_start_first_and_those_that_share_a_cluster_come_after_all_others() -> None:
    nodes, own, other = (
        f"{LONGEST[0]}/test_x.py",
        "tests/integration/system/test_churn.py",
        "tests/integration/kube/x.py",
    )
    long, short = LONGEST_OF_SYSTEM[0], SYSTEM
    assert sorted([short, long, other, own, nodes], key=rank) == [nodes, own, other, long, short]
