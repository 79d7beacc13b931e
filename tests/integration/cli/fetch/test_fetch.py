"""`larder fetch` into a directory."""

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agent.store.disk import RealDisk
from rig.processes import wait_until
from shared.errors import LarderError, SourceChanged, Unreachable
from shared.sources.memory import MemorySource
from tests.integration.cli.fetch.command import FILES, Command


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path / "dir", MemorySource(FILES))


def test_the_directory_has_exactly_the_files_of_the_source(command: Command) -> None:
    assert command.run() == 0
    assert command.tree() == FILES
    assert not (command.to / ".larder").exists()
    assert command.error == ""
    assert "4 files" in command.out
    assert "verified by digest" in command.out
    assert (command.to / "weights.safetensors").stat().st_mode & 0o777 == 0o644


def test_complete_and_correct_files_are_not_fetched_again(command: Command) -> None:
    assert command.run() == 0
    served = command.source.served_bytes
    assert command.run() == 0
    assert command.source.served_bytes == served


def test_only_missing_or_wrong_files_are_fetched(command: Command) -> None:
    assert command.run() == 0
    body = bytearray(FILES["weights.safetensors"])
    body[1000] ^= 1
    (command.to / "weights.safetensors").write_bytes(body)
    (command.to / "config.json").unlink()
    served = command.source.served_bytes
    assert command.run() == 0
    assert command.tree() == FILES
    assert command.source.served_bytes - served == len(body) + 2


def test_other_files_of_the_directory_are_left_alone(command: Command) -> None:
    command.to.mkdir()
    (command.to / "notes.txt").write_text("kept")
    assert command.run() == 0
    assert command.tree() == {**FILES, "notes.txt": b"kept"}


def test_a_quiet_run_prints_nothing(command: Command) -> None:
    assert command.run(quiet=True) == 0
    assert command.out == ""


def test_a_failure_prints_one_line_and_keeps_the_received_bytes(command: Command) -> None:
    def refuse_late(path: str, position: int) -> None:
        if path == "weights.safetensors" and position >= 2**20:
            raise LarderErrorWithLines("first\nsecond")

    command.source.faults.before_read = refuse_late
    assert command.run() == 1
    assert command.error == "LarderErrorWithLines: first second\n"
    command.source.faults.before_read = None
    before = command.source.served_bytes
    assert command.run() == 0
    assert command.source.served_bytes - before < len(FILES["weights.safetensors"])
    assert command.tree() == FILES


class LarderErrorWithLines(LarderError):
    retryable = False


def test_a_wrong_token_a_missing_repository_and_a_bad_uri_are_reported_with_the_reason(command: Command) -> None:
    assert command.run("hf://no/such") == 1
    assert command.error.startswith("SourceNotFound: ")
    assert command.run("ftp://host/file") == 1
    assert command.error.startswith("InvalidURI: ")
    command.source = MemorySource(FILES, token="right")
    assert command.run() == 1
    assert command.error.startswith("AuthDenied: ")
    command.environ["HF_TOKEN"] = "right"
    assert command.run() == 0


def test_a_file_with_a_wrong_digest_is_refused(command: Command) -> None:
    command.source.faults.corrupt.add("weights.safetensors")
    assert command.run() == 1
    assert command.error.startswith("DigestMismatch: 'weights.safetensors'")
    assert "weights.safetensors" not in command.tree()


def test_a_second_command_on_the_directory_is_refused(command: Command) -> None:
    command.to.mkdir()
    (command.to / ".larder-holder").write_text("12345 host\n")
    descriptor = os.open(command.to, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert command.run() == 1
    assert command.error.startswith("StoreFailure: ")
    assert "process 12345 on host" in command.error
    os.close(descriptor)


def test_links_in_the_directory_are_not_followed(command: Command, tmp_path: Path) -> None:
    aim = tmp_path / "aim"
    aim.mkdir()
    command.to.mkdir()
    (command.to / "sub").symlink_to(aim)
    (command.to / "copy").symlink_to(aim / "file")
    assert command.run() == 1
    assert command.error.startswith("UnsafePath: ")
    assert list(aim.iterdir()) == []
    (command.to / "sub").unlink()
    assert command.run() == 0
    assert list(aim.iterdir()) == []
    assert command.tree() == FILES


def test_a_stopped_fetch_keeps_the_received_bytes(command: Command) -> None:
    stop, never = threading.Event(), threading.Event()

    def stop_halfway(path: str, position: int) -> None:
        if path == "weights.safetensors" and position >= 2**20:
            stop.set()
            never.wait(0.5)  # a server that is slow from here on: the rest must not arrive before the stop is seen

    command.source.faults.before_read = stop_halfway
    assert command.run(stop=stop) == 130
    command.source.faults.before_read = None
    before = command.source.served_bytes
    assert command.run() == 0
    assert command.source.served_bytes - before < len(FILES["weights.safetensors"])


def test_a_server_that_always_fails_is_abandoned_after_a_few_attempts(command: Command) -> None:
    command.source.faults.on_open = [Unreachable("reset")] * 1000
    assert command.run() == 1
    assert command.error.startswith("Unreachable: reset")
    assert len(command.source.faults.on_open) > 900


def test_the_cli_can_be_run_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "shared.cli", "fetch", "pvc://ns/claim/path", "--to", "/nowhere"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    assert done.returncode == 1
    assert done.stderr.startswith("InvalidURI: ")
    assert done.stderr.count("\n") == 1


def test_a_source_that_changes_during_a_fetch_is_listed_again(command: Command) -> None:
    def change(path: str, position: int) -> None:
        if path == "weights.safetensors" and position >= 2**20:
            command.source.faults.before_read = None
            command.source.files["weights.safetensors"] = b"new" * 2**20
            raise SourceChanged("it moved")

    command.source.faults.before_read = change
    assert command.run() == 0
    assert command.tree() == {**FILES, "weights.safetensors": b"new" * 2**20}


def test_an_attempt_waits_for_a_file_that_the_previous_one_still_flushes(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, first, second, again = "weights.safetensors", threading.Event(), threading.Event(), threading.Event()
    command.source = MemorySource({"config.json": b"{}", weights: b"old" * 2**21})

    def flush(disk: RealDisk, descriptor: int) -> None:
        del disk, descriptor
        if first.is_set():  # as on a slow disk, where both flushes end at once
            second.set()
            wait_until(lambda: not list(command.to.glob(".larder/partial/*.part")), 30, "the first flush to end")
            return
        first.set()
        assert again.wait(30)
        second.wait(1)  # it does not come

    def change(path: str, position: int) -> None:
        if path != weights or position < 2**20:
            return
        assert first.wait(30)
        if command.source.files[weights].startswith(b"new"):
            again.set()
            return
        command.source.files[weights] = b"new" * 2**21
        raise SourceChanged("it moved")

    monkeypatch.setattr(RealDisk, "sync_all", flush)
    command.source.faults.before_read = change
    assert command.run() == 0, command.error
    assert command.tree() == {"config.json": b"{}", weights: b"new" * 2**21}
    assert not second.is_set()


def test_a_source_that_keeps_changing_is_abandoned(command: Command) -> None:
    command.source.faults.on_open = [SourceChanged("it moved")] * 100
    assert command.run() == 1
    assert command.error == "SourceChanged: it moved\n"


@pytest.mark.parametrize("name", [".larder", ".larder/store.json", ".larder-holder", ".larder-holder/x"])
def test_a_reserved_file_name_is_refused(command: Command, name: str) -> None:
    command.source.files[name] = b"{}"
    assert command.run() == 1
    assert command.error.startswith(f"UnsafePath: the file name '{name}' is reserved")


def test_a_link_with_the_name_of_our_state_directory_is_not_followed(command: Command, tmp_path: Path) -> None:
    (tmp_path / "aim").mkdir()
    command.to.mkdir()
    (command.to / ".larder").symlink_to(tmp_path / "aim")
    assert command.run() == 1
    assert command.error.startswith("UnsafePath: ")
    assert list((tmp_path / "aim").iterdir()) == []


def test_a_foreign_directory_with_the_name_of_our_state_directory_is_kept(command: Command) -> None:
    (command.to / ".larder").mkdir(parents=True)
    (command.to / ".larder" / "notes").write_text("kept")
    assert command.run() == 1
    assert command.error.startswith("UnsafePath: ")
    assert command.tree() == {".larder/notes": b"kept"}


def test_a_directory_with_the_name_of_a_file_is_reported_before_anything_is_fetched(command: Command) -> None:
    (command.to / "weights.safetensors").mkdir(parents=True)
    assert command.run() == 1
    assert command.error.startswith("StoreFailure: ")
    assert "is a directory" in command.error
    assert command.source.served_bytes == 0


def test_an_unexpected_error_prints_one_line(command: Command) -> None:
    def fail(path: str, position: int) -> None:
        raise ZeroDivisionError(f"{path} {position}")

    command.source.faults.before_read = fail
    assert command.run() == 1
    assert command.error.startswith("InternalError: ZeroDivisionError: ")
    assert command.error.count("\n") == 1
