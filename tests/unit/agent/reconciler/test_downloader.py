import threading
from pathlib import Path

import pytest

from agent.reconciler.downloader import Downloader
from agent.reconciler.reservations import reservation_of
from agent.store.download_plan import DownloadPlan
from agent.store.store import Store
from agent.transfer.progress import Progress
from agent.transfer.rate_limit import RateLimiter
from shared.api.model_node import Entry
from shared.api.wire import CredentialsResponse
from shared.errors import InsufficientStorage
from shared.manifest import File, build_manifest
from shared.sources.settings import SourceSettings
from tests.builders.observations import entry

SIZE = 100_000


def test_a_download_whose_files_went_with_another_model_needs_space_for_them_again(tmp_path: Path) -> None:
    """It was prepared when another model had all its files, and has waited for a slot since."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "weights.bin").write_bytes(b"x" * SIZE)
    plan = DownloadPlan(build_manifest(f"local://{source}", "r1", [File("weights.bin", SIZE)]))
    store = Store.open(tmp_path / "store")
    downloader = Downloader(store, SourceSettings(local_roots=(str(tmp_path),)), RateLimiter(), 1)

    def download(wanted: Entry) -> None:
        downloader.download(wanted, plan, CredentialsResponse(()), None, Progress(), threading.Event())

    download(entry("first"))
    second, limit = entry("second"), store.space.used_bytes() + SIZE
    store.space.reserve(reservation_of(second.key), store.space.need_bytes(plan, second.id, limit), limit, 0)
    store.snapshots.remove("first", "r1")
    store.space.reserve("third", limit - store.space.used_bytes() - SIZE // 2, limit, 0)
    with pytest.raises(InsufficientStorage):
        download(second)
    store.space.release("third")
    download(second)
    assert [snapshot.id for snapshot in store.snapshots.all()] == ["second"]
    store.close()
