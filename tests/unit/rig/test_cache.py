import threading
from pathlib import Path

import pytest

from rig.binaries import ETCD
from rig.cache import install, locked, workspace
from rig.errors import SetupFailed


def test_a_second_set_up_waits_for_the_first(tmp_path: Path) -> None:
    order: list[str] = []
    waiting = threading.Event()

    def second() -> None:
        with locked(tmp_path, lambda _: waiting.set()):
            order.append("second")

    with locked(tmp_path, lambda _: None):
        other = threading.Thread(target=second)
        other.start()
        assert waiting.wait(60)
        order.append("first")
    other.join()
    assert order == ["first", "second"]


def test_leftovers_of_a_killed_set_up_are_removed(tmp_path: Path) -> None:
    (tmp_path / "work-gone" / "module").mkdir(parents=True)
    with locked(tmp_path, lambda _: None):
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SetupFailed, match="set LARDER_CACHE"), locked(tmp_path / "file" / "cache", lambda _: None):
        pass


def test_installing_a_program_leaves_no_temporary_files(tmp_path: Path) -> None:
    with workspace(tmp_path) as work:
        (work / "etcd").write_bytes(b"program")
        place = install(ETCD, work / "etcd", tmp_path)
    assert place.read_bytes() == b"program"
    assert place.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]
