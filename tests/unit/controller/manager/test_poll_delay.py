"""How often objects of a crowded namespace are checked."""

import pytest

from controller.manager.poll_delay import poll_delay_s


@pytest.mark.parametrize(
    ("delay_s", "waiting", "expected_s"), [(15, 0, 15), (15, 19, 15), (15, 100, 90), (15, 5000, 300), (600, 5000, 600)]
)
def test_objects_of_a_crowded_namespace_are_checked_less_often(delay_s: float, waiting: int, expected_s: float) -> None:
    assert poll_delay_s(delay_s, waiting) == expected_s
