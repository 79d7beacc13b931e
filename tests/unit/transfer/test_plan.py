from hypothesis import given
from hypothesis import strategies as st

from agent.transfer.plan import SMALL_BYTES, plan_lanes
from shared.manifest import File

files = st.lists(
    st.integers(0, 3 * SMALL_BYTES).flatmap(lambda size: st.integers(0, 10**9).map(lambda n: File(f"f{n}", size))),
    unique_by=lambda f: f.path,
)


@given(files, st.integers(1, 64))
def test_every_file_is_in_exactly_one_lane(listed: list[File], concurrency: int) -> None:
    lanes = plan_lanes(listed, concurrency)
    assert sorted(f.path for lane in lanes for f in lane.files) == sorted(f.path for f in listed)
    assert all(lane.files and lane.width >= 1 for lane in lanes)


@given(files, st.integers(1, 64))
def test_small_files_do_not_wait_behind_large_ones(listed: list[File], concurrency: int) -> None:
    for lane in plan_lanes(listed, concurrency):
        assert len({f.size > SMALL_BYTES for f in lane.files}) == 1
        assert [f.size for f in lane.files] == sorted((f.size for f in lane.files), reverse=True)


def test_large_files_come_as_many_at_a_time_as_asked() -> None:
    [lane] = plan_lanes([File("a", SMALL_BYTES + 1)], 3)
    assert lane.width == 3


def test_no_files_no_lanes() -> None:
    assert plan_lanes([], 4) == ()
