from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.store.floor import Floor, StoreVolume, lies_on_root_disk, parse_floor, shortage_message

GIB = 2**30
sizes = st.integers(0, 2**50)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", 0), ("1073741824", GIB), ("50Gi", 50 * GIB), ("15%", 150 * GIB), ("2.5%", 25 * GIB), ("auto", GIB)],
)
def test_a_floor_may_be_bytes_a_percentage_or_auto(text: str, expected: int) -> None:
    assert parse_floor(text).bytes_of(1000 * GIB, on_root_disk=False) == expected


def test_the_automatic_floor_of_the_root_disk_is_above_the_kubelet_eviction_threshold() -> None:
    assert Floor().bytes_of(1000 * GIB, on_root_disk=True) == 150 * GIB
    assert Floor().bytes_of(2 * GIB, on_root_disk=True) == GIB
    assert Floor(size_bytes=5).bytes_of(1000 * GIB, on_root_disk=True) == 5  # an explicit number is used as it is


@pytest.mark.parametrize("text", ["", "-1", "100%", "a%", "half", "5 %"])
def test_an_invalid_floor_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="write for example 15% or 50Gi"):
        parse_floor(text)


def test_the_root_disk_is_recognised_by_the_device_of_a_file_from_kubelet(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("")
    assert lies_on_root_disk(tmp_path, tmp_path / "hosts")
    assert not lies_on_root_disk(tmp_path, Path("/proc/version"))
    assert not lies_on_root_disk(tmp_path, tmp_path / "missing")


@pytest.mark.parametrize(
    ("on_root", "refuses", "refused"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_the_root_disk_is_refused_only_if_so_configured(*, on_root: bool, refuses: bool, refused: bool) -> None:
    volume = StoreVolume(Path("/models"), on_root_disk=on_root, refuses_root_disk=refuses)
    assert bool(volume.why_refused()) == refused
    assert not refused or "/models is on the node's root file system" in volume.why_refused()


@given(sizes, sizes)
def test_a_running_download_stops_only_well_below_the_floor(free: int, floor: int) -> None:
    if free >= floor:
        assert shortage_message(free, floor) == ""
    if free < floor * 15 // 16:
        assert "resumes" in shortage_message(free, floor)


def test_the_shortage_message_states_free_and_reserved_space() -> None:
    assert "the disk has 1.0 GiB free, but 37.5 GiB must stay free" in shortage_message(GIB, 37 * GIB + GIB // 2)
