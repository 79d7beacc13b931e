"""The columns that kubectl prints from the statuses of models."""

import pytest

from controller.models.revisions import first_few


@pytest.mark.parametrize(
    ("names", "printed"),
    [((), ""), (("a",), "a"), (("a", "b", "c"), "a, b, c"), (("a", "b", "c", "d", "e"), "a, b, c and 2 more")],
)
def test_the_column_shows_at_most_three_names(names: tuple[str, ...], printed: str) -> None:
    assert first_few(names) == printed
