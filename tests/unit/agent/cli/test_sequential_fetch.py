"""Files written in order, for volumes that can neither link nor rename."""

import os
import threading
from pathlib import Path

import pytest

from agent.cli.sequential_fetch import PROBE, SequentialFetch, can_link
from agent.transfer.progress import Progress
from agent.transfer.rate_limit import RateLimiter
from agent.transfer.receive import Stopped
from shared.errors import DigestMismatch, InvalidURI, SourceChanged, StoreFailure, Unreachable
from shared.sources.memory import MemorySource

FILES = {"config.json": b"{}", "empty": b"", "sub/weights.safetensors": os.urandom(3_000_000)}


def fill(
    source: MemorySource, target: Path, revision: str = "", stop: threading.Event | None = None
) -> SequentialFetch:
    return SequentialFetch(source, target, 2, Progress(), stop or threading.Event(), RateLimiter(), revision)


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_probing_for_links_leaves_no_file_behind(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / PROBE).write_text("left by a killed pod")
    assert can_link(tmp_path / "model")
    assert files_in(tmp_path) == {}


def test_a_directory_that_cannot_be_written_to_is_reported(tmp_path: Path) -> None:
    (tmp_path / "model").write_text("a file")
    with pytest.raises(StoreFailure, match="writing to"):
        can_link(tmp_path / "model")


def test_all_files_are_written_and_only_wrong_ones_again(tmp_path: Path) -> None:
    source = MemorySource(FILES)
    outcome = fill(source, tmp_path).run()
    assert files_in(tmp_path) == FILES
    assert (outcome.verified, outcome.received_bytes) == ("digest", sum(map(len, FILES.values())))
    (tmp_path / "config.json").write_bytes(b"[]")
    again = fill(source, tmp_path)
    assert again.run().received_bytes == len(b"{}")
    assert files_in(tmp_path) == FILES
    assert again.progress.done == again.progress.total


def test_files_without_a_digest_are_written_again(tmp_path: Path) -> None:
    source = MemorySource(FILES, digests=False)
    fill(source, tmp_path).run()
    assert fill(source, tmp_path).run().received_bytes == sum(map(len, FILES.values()))


def test_a_stream_that_breaks_resumes_where_it_ended(tmp_path: Path) -> None:
    source = MemorySource(FILES)
    source.faults.on_open.append(Unreachable("no connection"))
    source.faults.max_bytes = 100_000
    assert fill(source, tmp_path).run().received_bytes == sum(map(len, FILES.values()))
    assert files_in(tmp_path) == FILES


def test_a_file_with_wrong_bytes_is_removed_and_not_counted(tmp_path: Path) -> None:
    source = MemorySource(FILES)
    source.faults.corrupt.add("sub/weights.safetensors")
    failed = fill(source, tmp_path)
    with pytest.raises(DigestMismatch):
        failed.run()
    assert "sub/weights.safetensors" not in files_in(tmp_path)
    assert failed.progress.done <= len(b"{}")


def test_a_source_of_another_revision_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(SourceChanged):
        fill(MemorySource(FILES), tmp_path, revision="older").run()
    assert files_in(tmp_path) == {}


def test_a_stopped_fill_raises_stopped(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        fill(MemorySource(FILES), tmp_path, stop=stop).run()


def test_an_archive_is_refused_because_its_members_cannot_be_placed(tmp_path: Path) -> None:
    with pytest.raises(InvalidURI, match=r"archive 'model.tar.gz'"):
        fill(MemorySource({"model.tar.gz": b"x"}), tmp_path).run()


def test_a_file_is_not_written_through_a_foreign_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").symlink_to(tmp_path / "outside" / "victim")
    fill(MemorySource({"config.json": b"{}"}), tmp_path / "model").run()
    assert files_in(tmp_path / "outside") == {}
