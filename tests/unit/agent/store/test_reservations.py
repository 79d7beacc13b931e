from hypothesis import given
from hypothesis import strategies as st

from agent.store.reservations import Ledger, StoreCapacity, shortage, why_refused

sizes = st.integers(min_value=0, max_value=10**13)


@given(need=st.integers(1, 10**13), promised=sizes, used=sizes, limit=sizes, disk_free=sizes, floor=sizes)
def test_only_reservations_within_both_bounds_are_accepted(
    need: int, promised: int, used: int, limit: int, disk_free: int, floor: int
) -> None:
    under_limit = limit == 0 or used + promised + need <= limit
    on_disk = promised + need + floor <= disk_free
    assert (why_refused(need, promised, StoreCapacity(used, limit, disk_free, floor)) == "") == (
        under_limit and on_disk
    )


@given(need=sizes, promised=sizes, used=sizes, floor=sizes)
def test_an_exact_fit_is_accepted_and_one_byte_more_is_not(need: int, promised: int, used: int, floor: int) -> None:
    capacity = StoreCapacity(used, used + promised + need, promised + need + floor, floor)
    assert why_refused(need, promised, capacity) == ""
    assert why_refused(need + 1, promised, capacity)


@given(need=sizes, promised=sizes, used=sizes, limit=sizes, disk_free=sizes, floor=sizes)
def test_a_download_fits_once_the_reported_shortage_is_freed(
    need: int, promised: int, used: int, limit: int, disk_free: int, floor: int
) -> None:
    missing = shortage(need, promised, StoreCapacity(used, limit, disk_free, floor))
    if limit and need > limit:
        assert missing == 0
    else:
        assert why_refused(need, promised, StoreCapacity(used - missing, limit, disk_free + missing, floor)) == ""
    if missing:
        assert why_refused(need, promised, StoreCapacity(used - missing + 1, limit, disk_free + missing - 1, floor))


def test_a_download_that_needs_no_bytes_is_accepted_even_over_the_limit() -> None:
    assert why_refused(0, 5, StoreCapacity(used=100, limit=10, disk_free=0, floor=7)) == ""


def test_the_refusal_states_all_numbers() -> None:
    message = why_refused(900, 11, StoreCapacity(used=222, limit=1000, disk_free=555, floor=44))
    for part in ("need 900 bytes", "have 500 bytes", "limit 1000 bytes", "used 222 bytes", "others 11 bytes"):
        assert part in message
    assert "disk free 555 bytes" in message
    assert "to keep free 44 bytes" in message


def test_the_refusal_suggests_a_remedy() -> None:
    assert "raise storageLimit" in why_refused(2000, 0, StoreCapacity(0, 1000, 10**9, 0))
    assert "never" in why_refused(2000, 0, StoreCapacity(0, 1000, 10**9, 0))
    assert "remove a model or raise storageLimit" in why_refused(600, 0, StoreCapacity(500, 1000, 10**9, 0))
    assert "free space on the node's disk" in why_refused(600, 0, StoreCapacity(0, 1000, 100, 0))


keys = st.sampled_from(["a", "b", "c"])
steps = st.one_of(
    st.tuples(st.just("promise"), keys, sizes),
    st.tuples(st.just("arrived"), keys, st.integers(-(10**9), 10**9)),
    st.tuples(st.just("withdraw"), keys, st.just(0)),
)


@given(st.lists(steps, max_size=30))
def test_changing_one_reservation_never_changes_the_others_or_goes_negative(
    taken: list[tuple[str, str, int]],
) -> None:
    ledger = Ledger()
    for name, key, size in taken:
        others = ledger.reserved(excluding=key)
        match name:
            case "promise":
                ledger.reserve(key, size)
            case "arrived":
                ledger.count_arrived(key, size)
            case _:
                ledger.release(key)
        assert ledger.reserved(excluding=key) == others
        assert ledger.reserved() >= others


@given(st.lists(st.integers(1, 1000), max_size=20))
def test_a_reservation_shrinks_with_arriving_and_grows_with_discarded_bytes(parts: list[int]) -> None:
    ledger = Ledger()
    ledger.reserve("a", sum(parts))
    for part in parts:
        ledger.count_arrived("a", part)
    assert ledger.reserved() == 0
    ledger.count_arrived("a", -sum(parts))
    assert ledger.reserved() == sum(parts)
