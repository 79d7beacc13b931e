"""How `tests/workers.py` shares out tests."""

import pytest

from tests.workers import next_unit

SYSTEM, UNIT, NODES = "tests/integration/system/test_x.py", "tests/unit/test_x.py", "tests/e2e/devices"


@pytest.mark.parametrize(("worker", "taken"), [(0, NODES), (3, NODES), (4, UNIT), (5, None), (6, None)])
def test_while_node_tests_wait_four_workers_take_them_and_one_takes_unit_tests(worker: int, taken: str | None) -> None:
    assert next_unit([UNIT, SYSTEM, NODES], worker) == taken


@pytest.mark.parametrize("worker", [0, 4, 6])
def test_without_node_tests_every_worker_takes_cluster_tests_first(worker: int) -> None:
    assert next_unit([UNIT, SYSTEM], worker) == SYSTEM
    assert next_unit([UNIT], worker) == UNIT
    assert next_unit([], worker) is None
