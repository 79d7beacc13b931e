"""Which models a claim gets from the disk while their metadata is being read, in real child processes."""

import asyncio
import sys
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from aiohttp import web

from agent.dra.devices import DiskSnapshot
from agent.dra.kubelet_claim import KubeletClaim
from agent.dra.observe import PreparationObserver
from agent.dra.snapshots import SnapshotScanner
from agent.store.layout import Layout
from agent.store.snapshot import Completed
from shared.dra import DRIVER, RESOURCES, device_name
from shared.paths import COMPLETED
from tests.builders.api_server import Objects, connected, serving
from tests.builders.device_plugins import Hanging

MODEL, OTHER = ("m", "r"), ("other", "r")
REF = KubeletClaim("ns", "c", "u-c")
ANSWER = '{"metadata": {"architectures": ["Llama"], "parameters": 9}}'
SOON_S = 8.0  # less than a scan waits for metadata


def _add(root: Path, identity: str, revision: str) -> None:
    """Add a snapshot without files."""
    folder = Layout(root).snapshot(identity, revision)
    folder.mkdir(parents=True)
    (folder / COMPLETED).write_bytes(Completed(identity, revision, "hf://a/b", f"sha256-of-{identity}", ()).encode())


def _command(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Read metadata with this program."""
    monkeypatch.setattr("agent.dra.snapshots.COMMAND", (sys.executable, "-c", program))


@pytest.fixture
async def observer(tmp_path: Path) -> AsyncIterator[PreparationObserver]:
    """An observer of a disk with one model, which a claim holds."""
    _add(tmp_path / "store", *MODEL)
    result = {"request": "m", "driver": DRIVER, "pool": "n", "device": device_name(*MODEL)}
    claim = {
        "metadata": {"namespace": REF.namespace, "name": REF.name, "uid": REF.uid},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }
    path = f"{RESOURCES}/namespaces/ns/resourceclaims/c"
    async with serving(Objects({path: claim}), tmp_path) as kube:
        with ThreadPoolExecutor(1) as thread:
            yield PreparationObserver(kube, "n", "u1", SnapshotScanner(tmp_path / "store"), thread)


async def test_a_claim_does_not_wait_for_metadata(
    observer: PreparationObserver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _add(tmp_path / "store", *OTHER)
    end = tmp_path / "end"
    _command(monkeypatch, f"import pathlib, time\nwhile not pathlib.Path({str(end)!r}).exists(): time.sleep(0.02)")
    scan = asyncio.create_task(observer.scan())
    try:
        await asyncio.sleep(0.5)  # so that a child runs
        async with asyncio.timeout(SOON_S):
            view = await observer.view(REF, with_pods=True)
        assert view.held.keys() == {device_name(*MODEL)}
        assert not scan.done()
    finally:
        end.touch()
        await scan


async def test_the_pods_of_a_claim_are_read_together(tmp_path: Path) -> None:
    """256 slow reads, one after another, would exceed the deadline of the claim."""
    users = [{"resource": "pods", "name": name, "uid": name} for name in ("a", "b", "gone", "replaced")]
    claim = {"metadata": {"namespace": "ns", "name": "c", "uid": "u-c"}, "status": {"reservedFor": users}}
    pods = {f"/api/v1/namespaces/ns/pods/{name}": {"metadata": {"uid": name}} for name in ("a", "b")}
    other = {"/api/v1/namespaces/ns/pods/replaced": {"metadata": {"uid": "of its successor"}}}
    objects = Objects({f"{RESOURCES}/namespaces/ns/resourceclaims/c": claim} | pods | other)
    all_asked = asyncio.Barrier(len(users))

    async def answer(request: web.Request) -> web.Response:
        if "/pods/" in request.path:
            async with asyncio.timeout(SOON_S):
                await all_asked.wait()
        return await objects.answer(request)

    async with connected(answer, tmp_path) as kube:
        with ThreadPoolExecutor(1) as thread:
            observer = PreparationObserver(kube, "n", "u1", SnapshotScanner(tmp_path / "store"), thread)
            view = await observer.view(REF, with_pods=True)
    assert [pod["metadata"]["uid"] for pod in view.pods] == ["a", "b"]


class _HangingScanner(SnapshotScanner):
    """A scanner of a disk that hangs while one model is checked."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.hanging = Hanging()

    def current(self, model: DiskSnapshot) -> DiskSnapshot | None:
        self.hanging()
        return super().current(model)


async def test_a_disk_that_hangs_costs_one_thread_per_model(observer: PreparationObserver, tmp_path: Path) -> None:
    """Kubelet keeps retrying while the disk hangs."""
    observer.scanner = scanner = _HangingScanner(tmp_path / "store")

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await observer.view(REF, with_pods=False)

    async with asyncio.timeout(60):
        while not scanner.hanging.calls:  # on a busy machine, reading the claim alone can take as long
            await give_up()
    for _ in range(3):
        await give_up()
    assert scanner.hanging.calls == 1
    scanner.hanging.let_go.set()
    assert (await observer.view(REF, with_pods=False)).held.keys() == {device_name(*MODEL)}
    (Layout(tmp_path / "store").snapshot(*MODEL) / COMPLETED).unlink()
    assert (await observer.view(REF, with_pods=False)).held == {}


async def test_a_model_whose_metadata_takes_long_is_found_first_without_it_and_later_with_it(
    observer: PreparationObserver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.dra.observe._METADATA_WAIT_S", 0.01)
    end, device = tmp_path / "end", device_name(*MODEL)
    slow = f"import pathlib, time\nwhile not pathlib.Path({str(end)!r}).exists(): time.sleep(0.02)\nprint({ANSWER!r})"
    _command(monkeypatch, slow)
    found = (await observer.scan())[device]
    assert (found.architecture, found.parameters) == ("", 0)
    end.touch()
    monkeypatch.setattr("agent.dra.observe._METADATA_WAIT_S", 60.0)
    found = (await observer.scan())[device]
    assert (found.architecture, found.parameters) == ("Llama", 9)


async def test_metadata_whose_reading_was_interrupted_is_read_again(
    observer: PreparationObserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.dra.snapshots._AGAIN_S", 0.0)
    device = device_name(*MODEL)
    for program, architecture in (
        ("import os; os.kill(os.getpid(), 9)", ""),
        (f"print({ANSWER!r})", "Llama"),
        ("raise ValueError", "Llama"),  # known, so not run
    ):
        _command(monkeypatch, program)
        assert (await observer.scan())[device].architecture == architecture


async def test_metadata_whose_reading_failed_is_not_read_again(
    observer: PreparationObserver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in ("raise ValueError", f"print({ANSWER!r})"):
        _command(monkeypatch, program)
        assert (await observer.scan())[device_name(*MODEL)].architecture == ""
