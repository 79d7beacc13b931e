import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.quantity import format_bytes, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (0, 0), (1024, 1024), ("1024", 1024), ("1Ki", 1024), ("500Gi", 500 * 2**30), ("20G", 20 * 10**9),
        ("1.5Ki", 1536), ("0.1", 1), ("1500m", 2), ("1e3", 1000), ("2E3", 2000), ("1E", 10**18),
        ("1Ei", 2**60), (".5k", 500), ("007", 7),
    ],
)  # fmt: skip
def test_quantities_are_parsed_and_rounded_up(text: int | str, value: int) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "much",
        "10 GB",
        "10GB",
        "-1",
        -1,
        "+1",
        "1,5",
        "Gi",
        "1e",
        "1e999",
        "1K",
        "0x10",
        "1Gi ",
        "1Gi\n",
        "1" * 33,
        "٣",
    ],
)
def test_a_malformed_quantity_is_refused_with_a_hint(text: int | str) -> None:
    with pytest.raises(ValueError, match="write a number with a unit"):
        parse_quantity(text)


@given(st.integers(0, 2**63), st.sampled_from(["", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"]))
def test_a_unit_multiplies_the_number(number: int, unit: str) -> None:
    assert parse_quantity(f"{number}{unit}") == number * parse_quantity(f"1{unit}")


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (2**40 * 3, "3.0 TiB"), (14_388_000_000, "13.4 GiB")],
)
def test_sizes_are_formatted_in_binary_units(size: int, text: str) -> None:
    assert format_bytes(size) == text
