import itertools

from hypothesis import given
from hypothesis import strategies as st

from shared.byte_ranges import ByteRange, ByteRanges

SIZE = 60
some_spans = st.lists(st.tuples(st.integers(0, SIZE), st.integers(0, SIZE)), max_size=12).map(
    lambda pairs: [ByteRange(min(pair), max(pair)) for pair in pairs]
)


def bytes_of(ranges: list[ByteRange]) -> set[int]:
    return {at for span in ranges for at in range(span.start, span.end)}


@given(some_spans)
def test_spans_hold_exactly_the_bytes_that_were_added(ranges: list[ByteRange]) -> None:
    held = ByteRanges(ranges)
    assert bytes_of(list(held)) == bytes_of(ranges)
    assert held.size_bytes == len(bytes_of(ranges))


@given(some_spans)
def test_spans_are_sorted_and_do_not_touch(ranges: list[ByteRange]) -> None:
    found = list(ByteRanges(ranges))
    assert all(before.end < after.start for before, after in itertools.pairwise(found))
    assert all(span.size_bytes > 0 for span in found)


@given(some_spans, st.integers(0, SIZE))
def test_gaps_are_exactly_the_missing_bytes(ranges: list[ByteRange], size: int) -> None:
    held = ByteRanges(ranges)
    assert bytes_of(list(held.gaps(size))) == set(range(size)) - bytes_of(ranges)
    assert bytes_of(list(held.within(size))) == set(range(size)) & bytes_of(ranges)


@given(some_spans)
def test_the_front_is_the_first_missing_byte(ranges: list[ByteRange]) -> None:
    assert ByteRanges(ranges).front == min(set(range(SIZE + 1)) - bytes_of(ranges))
