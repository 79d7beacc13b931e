"""Bytes that another's credentials brought: the source is asked before a download without them may link them."""

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from agent.store.identity import keys_by_path
from agent.store.store import Store
from agent.transfer.engine import FetchResult
from rig.processes import wait_until
from shared.errors import AuthDenied
from shared.manifest import File
from shared.sources.memory import MemorySource
from shared.sources.port import Body, Credentials
from tests.integration.store.threads import fetching_threads

Bring = Callable[..., FetchResult]
WEIGHTS = os.urandom(2**20)
SOON_S = 60.0


def gated(files: Mapping[str, bytes]) -> tuple[MemorySource, MemorySource]:
    """Return a source as its owner sees it, and as somebody without credentials does."""
    owner = MemorySource(files, token="right", credentials=Credentials({"HF_TOKEN": "right"}))
    return owner, owner.with_credentials(Credentials())


def test_waiting_for_the_download_of_another_does_not_replace_the_sources_consent(bring: Bring, store: Store) -> None:
    owner, stranger = gated({"weights": WEIGHTS})
    manifest = owner.resolve()
    reading, go_on = threading.Event(), threading.Event()

    def hold(path: str, position: int) -> None:
        del path, position
        reading.set()
        assert go_on.wait(SOON_S)

    owner.faults.before_read = hold
    outcome: list[BaseException] = []

    def bring_as_a_stranger() -> None:
        try:
            bring(stranger, store, manifest=manifest)
        except AuthDenied as error:
            outcome.append(error)

    first = threading.Thread(target=bring, args=(owner, store), kwargs={"manifest": manifest})
    second = threading.Thread(target=bring_as_a_stranger)
    first.start()
    assert reading.wait(SOON_S)
    before = fetching_threads()
    second.start()
    wait_until(lambda: fetching_threads() > before, SOON_S, "the second to wait for the file")
    go_on.set()
    first.join()
    second.join()
    assert isinstance(outcome[0], AuthDenied)


def test_a_whole_file_that_another_left_unfinished_needs_it_too(bring: Bring, store: Store, root: Path) -> None:
    owner, stranger = gated({"weights": WEIGHTS})
    manifest = owner.resolve()
    key = keys_by_path(manifest.uri, manifest.revision, manifest.files)["weights"]
    part = root / "partial" / f"{key}.part"
    part.write_bytes(WEIGHTS)
    part.chmod(0o444)  # as a kill right before the last step leaves it
    with pytest.raises(AuthDenied):
        bring(stranger, store, manifest=manifest)
    assert bring(owner, store, manifest=manifest).blobs
    assert owner.served_bytes == 1


def test_a_file_without_bytes_proves_nothing(bring: Bring, store: Store) -> None:
    owner, stranger = gated({"weights": WEIGHTS})
    bring(owner, store)
    with_empty, _ = gated({"weights": WEIGHTS, "empty": b""})
    with pytest.raises(AuthDenied):
        bring(stranger, store, manifest=with_empty.resolve())


def test_consent_to_a_small_file_is_none_to_the_weights(bring: Bring, store: Store) -> None:
    class PublicReadme(MemorySource):
        """As buckets have them, where each object has its own readers."""

        def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
            if file.path != "README.md":
                raise AuthDenied(f"{file.path} is not for you")
            return super().open(file, offset, length)

    files = {"README.md": b"read me", "weights": WEIGHTS}
    owner = MemorySource(files)
    bring(owner, store)
    with pytest.raises(AuthDenied):
        bring(PublicReadme(files), store, manifest=owner.resolve())
    newer = PublicReadme(files | {"README.md": b"read me again"})
    with pytest.raises(AuthDenied):
        bring(newer, store)
