from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.kube.errors import Malformed
from shared.kube.lines import split_lines


async def arriving(chunks: Sequence[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


@settings(deadline=None)  # a busy machine is not a failure
@given(st.lists(st.binary(max_size=12).map(lambda b: b.replace(b"z", b"\n")), max_size=12))
async def test_lines_do_not_depend_on_how_the_bytes_arrive(chunks: list[bytes]) -> None:
    lines = [line async for line in split_lines(arriving(chunks), 10_000)]
    assert lines == b"".join(chunks).split(b"\n")[:-1]


async def test_a_line_of_many_megabytes_is_accepted() -> None:
    chunks = [b"x" * 65_536] * 100 + [b"\n"]
    assert [len(line) async for line in split_lines(arriving(chunks), 32 * 2**20)] == [6_553_600]


async def test_a_line_over_the_limit_is_malformed() -> None:
    with pytest.raises(Malformed, match="more than 10 bytes"):
        _ = [line async for line in split_lines(arriving([b"ok\n", b"x" * 6, b"x" * 6]), 10)]


async def test_many_lines_together_may_exceed_the_limit_of_one() -> None:
    assert len([line async for line in split_lines(arriving([b"12345\n" * 50]), 10)]) == 50
