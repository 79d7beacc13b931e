"""SIGKILL while an archive is unpacked: no wrong snapshot, no loss of verified files, no leftovers."""

import hashlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.store.download_plan import DownloadPlan
from agent.store.store import Store
from agent.transfer.engine import FetchResult
from tests.builders.stores import plan_of
from tests.integration.transfer.killed_unpacking import FILES, source

Run = Callable[[str, Path, int, int], bool]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Run a process until it is killed; return whether it was."""
    arguments = [sys.executable, "-m", "tests.integration.transfer.killed_unpacking"]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - ourselves
        assert process.stdin
        assert process.stdout
        orders, answers = process.stdin, process.stdout

        def order(shape: str, root: Path, fatal_sync: int, fatal_change: int) -> bool:
            print(shape, fatal_sync, fatal_change, root, file=orders, flush=True)
            code = int(answers.readline())
            assert code in (0, -signal.SIGKILL)
            return code != 0

        yield order


def examine(shape: str, root: Path, fetch_blobs: Callable[..., FetchResult]) -> None:
    """Assert that the disk is consistent, that the next start completes the model, and that nothing else is left."""
    for blob in root.glob("blobs/sha256/*"):
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name
    archive = source(shape)
    manifest = archive.resolve()
    held = {f.digest.removeprefix("sha256:") for f in manifest.files} <= {p.name for p in root.glob("blobs/sha256/*")}
    done = bool(list(root.glob("models/llama/[!.]*/.completed")))
    store = Store.open(root)
    store.recover()
    assert all(s.damaged == () and s.unpacked for s in store.snapshots.all())
    assert not list(root.glob("partial/*-*.part"))  # partly unpacked files are written again
    result = fetch_blobs(archive, store, manifest=manifest)
    assert archive.served_bytes <= len(manifest.files) or not (held or done)
    snapshot = store.snapshots.commit(DownloadPlan(manifest), "llama", result.blobs, result.unpacked)
    assert {f.path: (snapshot.path / f.path).read_bytes() for f in snapshot.files} == FILES
    assert store.snapshots.all() == [snapshot]
    store.close()
    again = Store.open(root)
    again.recover()
    assert set(again.blobs.paths()) == {f.sha256 for f in snapshot.files}
    assert [p for p in (root / "partial").iterdir() if p.suffix != ".map"] == []  # a kill may leave one, of some bytes
    assert not list(root.glob("models/**/.tmp-*"))
    again.close()
    shutil.rmtree(root)


@pytest.mark.parametrize("kind", ["sync", "change"])
@pytest.mark.parametrize("shape", ["one", "several"])
def test_a_kill_at_any_step_is_repaired_by_the_next_start(
    shape: str, kind: str, run: Run, root: Path, fetch_blobs: Callable[..., FetchResult]
) -> None:
    deaths = 0
    while run(shape, root / str(deaths), *((deaths + 1, 0) if kind == "sync" else (0, deaths + 1))):
        if (root / str(deaths)).is_dir():
            examine(shape, root / str(deaths), fetch_blobs)
        deaths += 1
    assert deaths > (5 if kind == "sync" else 25)


def test_leftovers_of_a_commit_are_removed_at_the_next_start(
    root: Path, fetch_blobs: Callable[..., FetchResult]
) -> None:
    """This is the state after a kill between the commit and the removal of the archive."""
    archive = source("one")
    store = Store.open(root)
    result = fetch_blobs(archive, store)
    pins = {p.name: p.read_bytes() for p in (root / "partial").iterdir()}
    kept = root / "kept"
    shutil.copytree(root / "partial", kept, copy_function=lambda a, b: Path(b).hardlink_to(a))
    store.snapshots.commit(plan_of(archive), "llama", result.blobs, result.unpacked)
    store.close()
    for path in kept.iterdir():
        path.rename(root / "partial" / path.name)
    assert pins
    again = Store.open(root)
    again.recover()
    assert list((root / "partial").iterdir()) == []
    assert set(again.blobs.paths()) == {f.sha256 for f in again.snapshots.all()[0].files}
    again.close()
