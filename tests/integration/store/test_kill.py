"""SIGKILL at any moment: no verified byte is lost, and no mark exists before its data."""

import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Protocol

import pytest

from agent.store.download_plan import DownloadPlan
from agent.store.partials import held_ranges
from agent.store.snapshot import Snapshot
from agent.store.store import Store
from shared.sources.memory import MemoryRepository, MemorySource
from tests.builders.stores import plan_of

SCRIPT = Path(__file__).with_name("killed.py")
SIZES = {"a.safetensors": 9_000_001, "b.safetensors": 7_000_000, "c.bin": 400_000, "config.json": 30, "sub/x": 5}
RATE = 60_000_000
KILLS, KILLS_A_ROUND, FIRST_S = 100, 20, 0.02
MAX_ROUNDS = 100
KILLED = -signal.SIGKILL


class Run(Protocol):
    """Runs a process and returns its exit code; `served_bytes` counts what the source served to all processes."""

    served_bytes: int

    def __call__(self, root: Path, **order: float) -> int: ...


class Runner:
    """Runs orders in processes forked by a helper process."""

    def __init__(self, orders: IO[bytes], ends: IO[bytes]) -> None:
        self._orders, self._ends, self.served_bytes = orders, ends, 0

    def __call__(self, root: Path, **order: float) -> int:
        self._orders.write(json.dumps({"root": str(root), **order}).encode() + b"\n")
        self._orders.flush()
        code, self.served_bytes = map(int, self._ends.readline().split())
        assert code in {0, KILLED}
        return code


@pytest.fixture
def wanted() -> MemorySource:
    """The source that the killed processes fetch from."""
    return MemoryRepository({path: random.Random(path).randbytes(size) for path, size in SIZES.items()})


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Runs processes that fetch the same files, and returns their exit codes."""
    command = [sys.executable, str(SCRIPT), json.dumps(SIZES)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as forking:  # noqa: S603 - ourselves
        orders, ends = forking.stdin, forking.stdout
        assert orders
        assert ends

        yield Runner(orders, ends)
        orders.close()


def examine(root: Path, wanted: MemorySource) -> int:
    """Assert that the state on the disk is consistent; return how many bytes of the model it has."""
    by_key = {key: wanted.files[file.path] for key, file in plan_of(wanted).contents().items()}
    for part in (root / "partial").glob("*.part"):
        bytes_here, body = part.read_bytes(), by_key[part.stem]
        for span in held_ranges(part.parent, part.stem, len(body), digest=True):
            assert bytes_here[span.start : span.end] == body[span.start : span.end]
    for blob in (root / "blobs" / "sha256").iterdir():
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name
    for mark in root.glob("models/*/*/.completed"):
        if not mark.parent.name.startswith("."):
            found = {str(p.relative_to(mark.parent)): p.read_bytes() for p in mark.parent.rglob("*") if p.is_file()}
            del found[".completed"]
            assert found == wanted.files
    store = Store.open(root)
    store.recover()
    manifest = wanted.resolve()
    missing = store.space.missing_bytes(DownloadPlan(manifest))
    store.close()
    return manifest.size_bytes - missing


def kill_at_random(run: Run, root: Path, wanted: MemorySource, *, tight: bool) -> tuple[int, int]:
    """Kill a download repeatedly, later each time; return the number of kills and the stored bytes."""
    held = 0
    for kills in range(KILLS_A_ROUND):
        ended = run(root, rate=RATE, after_s=random.uniform(0.001, FIRST_S * (kills + 1)), tight=tight) == 0
        if (root / "partial").is_dir():
            now = examine(root, wanted)
            assert now >= held
            held = now
        if ended:
            return kills, held
    return KILLS_A_ROUND, held


def test_after_kills_at_random_moments_the_download_resumes_from_its_bytes(
    root: Path, wanted: MemorySource, fetch_model: Callable[[MemorySource, Store, str], Snapshot], run: Run
) -> None:
    kills, rounds, held_in_all = 0, 0, 0
    while kills < KILLS or (held_in_all == 0 and rounds < MAX_ROUNDS):  # a busy machine may be killed before any byte
        here, rounds = root / str(rounds), rounds + 1
        more, held = kill_at_random(run, here, wanted, tight=rounds % 2 == 0)
        kills, held_in_all = kills + more, held_in_all + held
        store = Store.open(here)
        store.recover()
        before = wanted.served_bytes
        snapshot = fetch_model(wanted, store, "llama")
        assert wanted.served_bytes - before <= wanted.resolve().size_bytes - held + 1
        assert {f.path: (snapshot.path / f.path).read_bytes() for f in snapshot.files} == wanted.files
        store.close()
        shutil.rmtree(here)
    assert held_in_all > 0


def test_kills_cost_less_than_half_a_mebibyte_each(root: Path, wanted: MemorySource, run: Run) -> None:
    before, kills = run.served_bytes, 0
    while run(root, fatal_bytes=1_500_000) == KILLED:
        kills += 1
        assert kills < 40  # otherwise nothing is kept
    assert kills >= 10
    assert examine(root, wanted) == wanted.resolve().size_bytes
    assert run.served_bytes - before <= wanted.resolve().size_bytes + kills * 2**19


def test_a_kill_at_any_sync_leaves_a_consistent_store(root: Path, wanted: MemorySource, run: Run) -> None:
    held, deaths = 0, 0
    for fatal in range(1, 30):
        if run(root / str(fatal), fatal_sync=fatal) == 0:
            break
        deaths += 1
        held = examine(root / str(fatal), wanted)
    assert deaths >= 3 + 5  # two large files and the small ones together; the identity, the mark, the directories
    assert held == wanted.resolve().size_bytes  # the last kill came after all files were verified


def test_a_kill_before_any_rename_or_removal_is_repaired_by_the_next_start(
    root: Path, wanted: MemorySource, fetch_model: Callable[[MemorySource, Store, str], Snapshot], run: Run
) -> None:
    """Covers every link, rename, removal and mode change of two commits and a removal."""
    deaths, ended = 0, False
    while not ended:
        here = root / str(deaths)
        ended = run(here, fatal_change=deaths + 1) == 0
        deaths += not ended
        if (here / "partial").is_dir():
            examine(here, wanted)
        store = Store.open(here)
        store.recover()
        assert not list(here.glob("models/**/.gone-*"))
        assert not list(here.glob("models/**/.tmp-*"))
        assert all(snapshot.damaged == () for snapshot in store.snapshots.all())
        snapshot = fetch_model(wanted, store, "llama")
        store.snapshots.remove("old", snapshot.revision)
        assert [s.id for s in store.snapshots.all()] == ["llama"]
        assert store.snapshots.check(snapshot) == []
        assert set(store.blobs.paths()) == {f.sha256 for f in snapshot.files}
        store.close()
        shutil.rmtree(here)
    assert deaths > 60
