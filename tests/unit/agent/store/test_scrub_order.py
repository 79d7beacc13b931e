from hypothesis import given
from hypothesis import strategies as st

from agent.store.scrub import Position, blobs_ahead

names = st.sets(st.text("0123456789abcdef", min_size=4, max_size=4), max_size=20)


@given(names, st.text("0123456789abcdef", max_size=4))
def test_a_pass_continues_in_name_order_after_the_last_blob(found: set[str], after: str) -> None:
    ahead = blobs_ahead(found, Position(after))
    assert ahead == sorted(name for name in found if name > after)


def test_a_blob_that_is_not_finished_in_three_attempts_waits_for_the_next_pass() -> None:
    assert blobs_ahead("abc", Position("a", tries=2)) == ["b", "c"]
    assert blobs_ahead("abc", Position("a", tries=3)) == ["c"]
    assert blobs_ahead("abc", Position("c", tries=3)) == []
