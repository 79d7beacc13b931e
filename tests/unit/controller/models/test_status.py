"""What the statuses of models print for kubectl."""

import pytest

from controller.models.status import printed_names


@pytest.mark.parametrize(
    ("names", "printed"),
    [((), ""), (("a",), "a"), (("a", "b", "c"), "a, b, c"), (("a", "b", "c", "d", "e"), "a, b, c and 2 more")],
)
def test_a_column_names_three_groups_at_most(names: tuple[str, ...], printed: str) -> None:
    assert printed_names(names) == printed
