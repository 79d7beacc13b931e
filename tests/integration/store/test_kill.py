"""SIGKILL at any moment: no verified byte is lost, and no mark is ever seen before its data."""

import hashlib
import json
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.store.identity import distinct_files
from agent.store.partials import held_spans
from agent.store.snapshot import Snapshot
from agent.store.store import Store
from shared.sources.memory import MemorySource

SCRIPT = Path(__file__).with_name("killed.py")
SIZES = {"a.safetensors": 9_000_001, "b.safetensors": 7_000_000, "c.bin": 400_000, "config.json": 30, "sub/x": 5}
RATE = 10_000_000
KILLS = 25


@pytest.fixture
def wanted() -> MemorySource:
    """The source that the processes to be killed fetch from."""
    return MemorySource({path: random.Random(path).randbytes(size) for path, size in SIZES.items()})


def start(root: Path, fatal_fsync: int = 0, fatal_change: int = 0, rate: int = RATE) -> "subprocess.Popen[bytes]":
    fatal = [str(fatal_fsync), str(fatal_change)]
    arguments = [sys.executable, str(SCRIPT), str(root), json.dumps(SIZES), str(rate), *fatal]
    child = subprocess.Popen(arguments, stdout=subprocess.PIPE)  # noqa: S603 - ourselves
    assert child.stdout is not None
    assert child.stdout.readline() == b"start\n"
    return child


def kill_after(child: "subprocess.Popen[bytes]", pause_s: float) -> None:
    with child:
        threading.Event().wait(pause_s)  # the moment is random: there is no condition to wait for
        child.kill()


def examine(root: Path, wanted: MemorySource) -> int:
    """Assert that what is on the disk tells no lie; return how many bytes of the model it has."""
    by_key = {key: wanted.files[file.path] for key, file in distinct_files(wanted.resolve()).items()}
    for part in (root / "partial").glob("*.part"):
        bytes_here, body = part.read_bytes(), by_key[part.stem]
        for span in held_spans(part.parent, part.stem, len(body), digest=True):
            assert bytes_here[span.start : span.end] == body[span.start : span.end]
    for blob in (root / "blobs" / "sha256").iterdir():
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name
    for mark in root.glob("models/*/*/.completed"):
        if not mark.parent.name.startswith("."):
            found = {str(p.relative_to(mark.parent)): p.read_bytes() for p in mark.parent.rglob("*") if p.is_file()}
            del found[".completed"]
            assert found == wanted.files
    store = Store.open(root)
    store.sweep()
    manifest = wanted.resolve()
    missing = store.missing_bytes(manifest)
    store.close()
    return manifest.size_bytes - missing


def test_after_kills_at_random_moments_the_download_goes_on_from_its_bytes(
    root: Path, wanted: MemorySource, stock: Callable[[MemorySource, Store, str], Snapshot]
) -> None:
    held, kills = 0, 0
    while kills < KILLS or (not held and kills < 4 * KILLS):
        kill_after(start(root), random.uniform(0, 0.2) * (1 + kills // KILLS))  # later on a machine that is slow
        kills += 1
        if (root / "partial").is_dir():
            now = examine(root, wanted)
            assert now >= held
            held = now
    assert held > 0
    store = Store.open(root)
    store.sweep()
    snapshot = stock(wanted, store, "llama")
    assert wanted.served_bytes <= wanted.resolve().size_bytes - held + 1
    assert {f.path: (snapshot.path / f.path).read_bytes() for f in snapshot.files} == wanted.files
    store.close()


def test_a_kill_at_every_sync_leaves_a_disk_that_tells_no_lie(root: Path, wanted: MemorySource) -> None:
    held, deaths = 0, 0
    for fatal in range(1, 30):
        with start(root / str(fatal), fatal_fsync=fatal, rate=0) as child:
            child.communicate(timeout=120)
        if child.returncode == 0:
            break
        deaths += 1
        held = examine(root / str(fatal), wanted)
    assert deaths >= 3 + 5  # two large files and the small ones together; the identity, the mark, the directories
    assert held == wanted.resolve().size_bytes  # the last death came after all files were verified


def test_a_kill_before_any_change_of_names_leaves_what_the_next_start_puts_right(
    root: Path, wanted: MemorySource, stock: Callable[[MemorySource, Store, str], Snapshot]
) -> None:
    """Every link, rename, removal and change of mode of two commits and a removal is one of the points."""
    deaths, ended = 0, False
    while not ended:
        here = root / str(deaths)
        with start(here, fatal_change=deaths + 1, rate=0) as child:
            child.communicate(timeout=120)
        ended = child.returncode == 0
        deaths += not ended
        if (here / "partial").is_dir():
            examine(here, wanted)
        store = Store.open(here)
        store.sweep()
        assert not list(here.glob("models/**/.gone-*"))
        assert not list(here.glob("models/**/.tmp-*"))
        assert all(snapshot.damaged == () for snapshot in store.snapshots())
        snapshot = stock(wanted, store, "llama")
        store.set_aside_and_remove("old", snapshot.revision)
        assert [s.id for s in store.snapshots()] == ["llama"]
        assert store.check(snapshot) == []
        assert set(store.blobs()) == {f.sha256 for f in snapshot.files}
        store.close()
        shutil.rmtree(here)
    assert deaths > 60
