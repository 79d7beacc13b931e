import pytest

from rig.hub.ranges import Unsatisfiable, parse_range


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("bytes=0-0", (0, 1)),
        ("bytes=5-", (5, 10)),
        ("bytes=5-99", (5, 10)),
        ("bytes=-3", (7, 10)),
        ("bytes=-99", (0, 10)),
        ("bytes=-", None),
        ("bytes=0-1,4-5", None),
        ("items=0-1", None),
    ],
)
def test_range_headers_are_parsed_as_http_requires(header: str | None, expected: tuple[int, int] | None) -> None:
    assert parse_range(header, 10) == expected


def test_a_range_beyond_the_end_is_refused() -> None:
    with pytest.raises(Unsatisfiable):
        parse_range("bytes=10-", 10)
