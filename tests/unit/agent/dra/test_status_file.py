"""The status file, also on a disk that is full."""

import os
from pathlib import Path

import structlog

from agent.dra.status_file import READY, StatusFile


def test_a_touch_renews_the_time_and_leaves_the_text(tmp_path: Path) -> None:
    status = StatusFile(tmp_path / "plugin" / "status")
    status.set(READY)
    os.utime(status.path, (1, 1))
    status.touch()
    assert status.path.stat().st_mtime > 1
    assert status.path.read_text() == "ready\n"


def test_a_failed_write_is_logged_once_and_repeated(tmp_path: Path) -> None:
    status = StatusFile(tmp_path / "status")
    status.path.symlink_to("/dev/full")
    with structlog.testing.capture_logs() as logs:
        status.set(READY)
        status.touch()
    assert [log["message"] for log in logs] == [f"cannot write {status.path}: No space left on device"]
    status.path.unlink()
    status.touch()
    assert status.path.read_text() == "ready\n"


def test_a_file_that_was_removed_is_written_again(tmp_path: Path) -> None:
    status = StatusFile(tmp_path / "status")
    status.touch()
    status.path.unlink()
    status.touch()
    status.touch()
    assert status.path.read_text() == "starting\n"
