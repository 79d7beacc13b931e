"""Every outcome of a download: how it is counted, and the resulting state of the entry."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from agent.reconciler.activity import COMPLETE, DOWNLOAD, FAILED, STOPPED, DownloadResult
from agent.reconciler.observation import Downloading, Key
from agent.reconciler.retries import WHEN_SPACE_CHANGES_S
from shared.api.model_node import Entry, ModelNode, ModelNodeSpec
from shared.errors import InsufficientStorage
from shared.kube.objects import Meta
from shared.manifest import File, build_manifest
from tests.unit.agent.reconciler.node_rig import NODE_UID, NodeRig

KEY: Key = ("llama", "r1")


class AnyBug(Exception):
    """An error that the code does not expect."""


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[NodeRig]:
    """A node whose only entry is about to request credentials."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "model.bin").write_bytes(bytes(5000))
    manifest = build_manifest(f"local://{source}", KEY[1], [File("model.bin", 5000)])
    rig = NodeRig(tmp_path, {manifest.digest: manifest})
    entry = Entry(
        id=KEY[0], revision=KEY[1], uri=manifest.uri, manifest=manifest.digest, size=5000, state="Present", granted=True
    )
    rig.cluster.model_node = ModelNode(
        metadata=Meta(name="n1", uid="mn-1", generation=1), spec=ModelNodeSpec(node_uid=NODE_UID, entries=[entry])
    )
    rig.deliver()
    while not rig.activity.running:
        step(rig)
    with structlog.testing.capture_logs():  # formatting the coloured traceback of a bug would take most of the time
        yield rig
    rig.close()


def step(rig: NodeRig) -> None:
    """Let one thing happen."""
    if rig.threads.waiting:
        rig.work(0)
    else:
        rig.answer(0)


def stop_midway(rig: NodeRig, out_of_space: InsufficientStorage | None = None) -> None:
    """Let the source send almost nothing, and stop the download."""
    rig.executor.downloads.downloader.rate_limiter.set_rate(1)
    rig.answer(0)
    rig.executor.downloads.stop_all(out_of_space)


def end(rig: NodeRig) -> DownloadResult:
    """Let the download end, and return its result."""
    while rig.activity.running:
        step(rig)
    [(kind, result)] = rig.activity.ended
    assert kind == DOWNLOAD
    while any(isinstance(work, Downloading) for work in rig.cache.works.values()):
        step(rig)
    return result


def test_a_complete_download_is_held_and_has_no_failure(rig: NodeRig) -> None:
    rig.answer(0)
    assert end(rig) == DownloadResult(COMPLETE)
    assert KEY in rig.cache.held
    assert KEY not in rig.cache.failures


def test_a_download_that_is_not_wanted_any_more_stops_without_a_failure(rig: NodeRig) -> None:
    stop_midway(rig)
    assert end(rig) == DownloadResult(STOPPED)
    assert KEY not in rig.cache.failures


def test_a_download_on_a_full_disk_waits_for_space(rig: NodeRig) -> None:
    stop_midway(rig, InsufficientStorage("others have written to it"))
    rig.executor.downloads.stop_all()  # the reason is kept
    assert end(rig) == DownloadResult(FAILED, "InsufficientStorage")
    failure = rig.cache.failures[KEY]
    assert failure.cause.message == "others have written to it"


def test_a_download_without_credentials_leaves_the_entry_pending(rig: NodeRig) -> None:
    rig.answer(0, fails=True)
    assert end(rig) == DownloadResult(FAILED, "Unreachable")
    assert rig.cache.failures[KEY].transient


def test_a_download_whose_source_file_is_gone_fails_and_is_retried_later(rig: NodeRig) -> None:
    (rig.folder / "source" / "model.bin").unlink()
    rig.answer(0)
    assert end(rig) == DownloadResult(FAILED, "SourceNotFound")
    failure = rig.cache.failures[KEY]
    assert not failure.transient
    assert rig.now_s < failure.due_s < WHEN_SPACE_CHANGES_S


def test_an_unexpected_exception_is_counted_and_fails_the_download(rig: NodeRig) -> None:
    rig.answer(0, AnyBug("in a call"))
    assert end(rig) == DownloadResult(FAILED, "InternalError")
    assert rig.activity.internal_errors.counts == {"Downloading": 1}
    assert "Downloading failed with AnyBug: in a call" in rig.cache.failures[KEY].cause.message


def test_a_cancelled_download_counts_as_stopped_and_releases_its_space(rig: NodeRig) -> None:
    assert rig.store.space.reserved_bytes() > 0
    rig.loop.run_until_complete(rig.executor.shut_down(0))
    assert end(rig) == DownloadResult(STOPPED)
    rig.rest()
    assert rig.store.space.reserved_bytes() == 0
