"""How much the page cache may keep, according to the kernel's files."""

from pathlib import Path

import pytest

from agent.linux.cgroup import cache_bytes

AVAILABLE_BYTES = 8_000_000 * 1024
GIB = 2**30


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    (tmp_path / "proc" / "self").mkdir(parents=True)
    return tmp_path / "proc"


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    return tmp_path / "groups"


def limit(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{value}\n")


def test_without_a_cgroup_the_cache_may_use_the_available_memory(proc: Path, groups: Path) -> None:
    assert cache_bytes(lambda: AVAILABLE_BYTES, proc, groups) == AVAILABLE_BYTES


def test_the_memory_limit_of_the_container_bounds_the_cache(proc: Path, groups: Path) -> None:
    (proc / "self" / "cgroup").write_text("0::/\n")
    limit(groups / "memory.max", GIB)
    assert cache_bytes(lambda: AVAILABLE_BYTES, proc, groups) == GIB
    limit(groups / "memory.max", "max")
    assert cache_bytes(lambda: AVAILABLE_BYTES, proc, groups) == AVAILABLE_BYTES


def test_the_smallest_limit_of_the_enclosing_cgroups_bounds_the_cache(proc: Path, groups: Path) -> None:
    (proc / "self" / "cgroup").write_text("0::/kubepods/pod1/container\n")
    limit(groups / "kubepods" / "pod1" / "container" / "memory.max", "max")
    limit(groups / "kubepods" / "pod1" / "memory.max", 2 * GIB)
    limit(groups / "kubepods" / "memory.max", 4 * GIB)
    assert cache_bytes(lambda: AVAILABLE_BYTES, proc, groups) == 2 * GIB


def test_limits_of_cgroup_version_1_are_honoured(proc: Path, groups: Path) -> None:
    (proc / "self" / "cgroup").write_text("8:cpu,memory:/pod\n3:freezer:/\n0::/\n")
    limit(groups / "memory" / "pod" / "memory.limit_in_bytes", GIB)
    limit(groups / "memory" / "memory.limit_in_bytes", 2**63 - 4096)
    assert cache_bytes(lambda: AVAILABLE_BYTES, proc, groups) == GIB
    (proc / "self" / "cgroup").write_text("8:memory:/of/the/node\n")  # a path that is not visible in the container
    limit(groups / "memory" / "memory.limit_in_bytes", 3 * GIB)
    assert cache_bytes(lambda: AVAILABLE_BYTES, proc, groups) == 3 * GIB


def test_without_memory_information_nothing_is_cached(proc: Path, groups: Path) -> None:
    def unknown() -> int:
        raise FileNotFoundError

    assert cache_bytes(unknown, proc, groups) == 0


def test_available_memory_on_this_machine_matches_meminfo() -> None:
    [line] = [n for n in Path("/proc/meminfo").read_text().splitlines() if n.startswith("MemAvailable:")]
    assert cache_bytes(groups=Path("/nonexistent")) == pytest.approx(int(line.split()[1]) * 1024, rel=0.5)


def test_the_cache_limit_of_this_machine_is_positive() -> None:
    assert cache_bytes() > 0
