"""`larder fetch` of a model that is one archive."""

import os
import tarfile
import threading
from pathlib import Path

import pytest

from shared.sources.memory import MemorySource
from tests.builders.archives import MAKERS, member, tar, zipped
from tests.builders.refused_archives import REFUSED
from tests.integration.cli.fetch.command import Command

FILES = {"m/config.json": b"{}", "m/model.safetensors": os.urandom(5 * 2**20), "m/sub/tokenizer.json": b"[]"}


def command(tmp_path: Path, name: str, body: bytes) -> Command:
    return Command(tmp_path / "dir", MemorySource({name: body}))


@pytest.mark.parametrize("name", MAKERS)
def test_the_directory_contains_the_files_of_the_archive_instead_of_the_archive(name: str, tmp_path: Path) -> None:
    fetched = command(tmp_path, name, MAKERS[name](FILES))
    assert fetched.run() == 0
    assert fetched.tree() == FILES
    assert not (fetched.to / ".larder").exists()
    assert "3 files" in fetched.out
    assert "verified by digest" in fetched.out
    assert (fetched.to / "m/config.json").stat().st_mode & 0o777 == 0o644


def test_a_second_fetch_repairs_missing_and_changed_files_and_keeps_other_files(tmp_path: Path) -> None:
    fetched = command(tmp_path, "m.zip", zipped(FILES))
    assert fetched.run() == 0
    (fetched.to / "m/config.json").write_bytes(b"changed")
    (fetched.to / "notes").write_bytes(b"kept")
    assert fetched.run() == 0
    assert fetched.tree() == {**FILES, "notes": b"kept"}


@pytest.mark.parametrize("case", ["outside", "absolute link", "device", "setuid", "encrypted", "cut gzip", "lying zip"])
def test_an_unsafe_or_damaged_archive_is_refused_in_one_line_and_nothing_is_unpacked(case: str, tmp_path: Path) -> None:
    name, body, reason, phrase = REFUSED[case]
    fetched = command(tmp_path, name, body)
    assert fetched.run() == 1
    assert fetched.error.startswith(f"{reason}: ")
    assert fetched.error.count("\n") == 1
    assert phrase in fetched.error
    assert [p.name for p in fetched.to.iterdir()] == [".larder"]


@pytest.mark.parametrize("name", [".larder/x", ".larder-holder"])
def test_an_archive_with_a_member_under_a_reserved_name_is_refused(name: str, tmp_path: Path) -> None:
    fetched = command(tmp_path, "m.tar", tar(FILES, member(name)))
    assert fetched.run() == 1
    assert fetched.error.startswith("UnsafePath: ")
    assert not (fetched.to / "m").exists()


def test_links_within_an_archive_become_regular_files(tmp_path: Path) -> None:
    fetched = command(tmp_path, "m.tar", tar(FILES, member("link", tarfile.SYMTYPE, "m/config.json")))
    assert fetched.run() == 0
    assert fetched.tree() == {**FILES, "link": b"{}"}
    assert not (fetched.to / "link").is_symlink()


def test_an_archive_that_is_the_only_missing_file_of_several_is_not_unpacked(tmp_path: Path) -> None:
    files = {"m.tar": tar(FILES), "config.json": b"{}"}
    fetched = Command(tmp_path / "dir", MemorySource(files))
    assert fetched.run() == 0
    (fetched.to / "m.tar").unlink()
    assert fetched.run() == 0
    assert fetched.tree() == files


def test_a_stopped_fetch_continues_when_it_is_repeated(tmp_path: Path) -> None:
    stop, never = threading.Event(), threading.Event()
    fetched = command(tmp_path, "m.tar", tar(FILES))

    def stop_halfway(_: str, position: int) -> None:
        if position >= 2**20:
            stop.set()
            never.wait(0.5)  # a server that is slow from here on: the rest must not arrive before the stop is seen

    fetched.source.faults.before_read = stop_halfway
    assert fetched.run(stop=stop) == 130
    fetched.source.faults.before_read = None
    before = fetched.source.served_bytes
    assert fetched.run() == 0
    assert fetched.source.served_bytes - before < len(fetched.source.files["m.tar"])
    assert fetched.tree() == FILES
