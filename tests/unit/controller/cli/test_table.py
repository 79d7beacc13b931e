"""Tables never cut off a cell, however narrow the lines are."""

from hypothesis import given
from hypothesis import strategies as st

from controller.cli.table import Column, lay_out

COLUMNS = (
    Column("MODEL", folds=True), Column("STATE"), Column("READY"), Column("DONE", drop=1), Column("SIZE", drop=2),
    Column("REASON"),
)  # fmt: skip
NAME = "cmc/a-model-with-a-name-of-fortytwo-characters"
ROW = (NAME, "In_Transit", "38/40", "95%", "134.2 GiB", "InsufficientStorage")
words = st.text(st.characters(codec="ascii", categories=("L", "N", "P")), max_size=60)


def lines_at(width: int, *rows: tuple[str, ...]) -> list[str]:
    layout = lay_out(COLUMNS, rows, width)
    return ["  ".join(line).rstrip() for row in rows for line in layout.lines(row)]


def test_every_column_is_shown_if_there_is_space() -> None:
    assert lines_at(0, ROW) == lines_at(200, ROW) == lines_at(110, ROW) == [
        f"{NAME}  In_Transit  38/40  95%   134.2 GiB  InsufficientStorage"
    ]  # fmt: skip


def test_narrow_tables_drop_optional_columns_and_then_fold_names() -> None:
    assert lines_at(100, ROW) == [f"{NAME}  In_Transit  38/40  95%   InsufficientStorage"]
    assert lines_at(86, ROW) == [f"{NAME}  In_Transit  38/40  InsufficientStorage"]
    assert lines_at(80, ROW) == [
        "cmc/a-model-with-a-name-of-fortytwo-      In_Transit  38/40  InsufficientStorage",
        "characters",
    ]
    narrowest = lines_at(20, ROW)
    assert narrowest[0] == "cmc/a-model-      In_Transit  38/40  InsufficientStorage"
    assert "".join(line.split("  ")[0].strip() for line in narrowest) == NAME


@given(st.lists(st.tuples(words, words, words, words, words, words), min_size=1, max_size=5), st.integers(0, 250))
def test_required_columns_lose_no_characters_at_any_width(rows: list[tuple[str, ...]], width: int) -> None:
    layout = lay_out(COLUMNS, rows, width)
    needed = {number for number, column in enumerate(COLUMNS) if not column.drop}
    assert needed <= set(layout.columns)
    for row in rows:
        lines = list(layout.lines(row))
        for at, number in enumerate(layout.columns):
            assert "".join(line[at].rstrip() for line in lines) == row[number]
            assert COLUMNS[number].folds or all(not line[at].strip() for line in lines[1:])


@given(st.lists(st.tuples(words), min_size=1), st.integers(16, 100))
def test_folded_lines_keep_to_the_width(rows: list[tuple[str]], width: int) -> None:
    layout = lay_out([Column("MODEL", folds=True)], rows, width)
    assert all(len(line[0]) <= width for row in rows for line in layout.lines(row))


def test_a_wider_row_than_the_table_was_laid_out_for_is_not_truncated() -> None:
    layout = lay_out(COLUMNS, [("cmc/m", "Pending", "0/1", "", "", "")], 80)
    wider = (NAME, "Downloading", "0/100", "95%", "134.2 GiB", "InsufficientStorage")
    first, *rest = layout.lines(wider)
    assert tuple(cell.strip() for cell in first[1:]) == wider[1:]
    assert first[0].strip() + "".join(line[0].strip() for line in rest) == NAME
