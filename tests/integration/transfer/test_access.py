"""Files fetched with other credentials: a download may link them only if the source grants it access."""

import json
import os
import threading
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

import pytest

from agent.store.content_keys import keys_by_path
from agent.store.store import Store
from agent.transfer.engine import FetchResult
from agent.transfer.progress import Progress
from rig.processes import wait_until
from rig.s3 import S3
from shared.errors import AuthDenied, RateLimited, Unreachable
from shared.manifest import File, Manifest
from shared.sources.memory import MemorySource
from shared.sources.port import ANONYMOUS, Body, Credentials
from shared.sources.schemes import open_source
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri
from tests.integration.transfer.threads import fetching_threads

FetchBlobs = Callable[..., FetchResult]
WEIGHTS = os.urandom(2**20)
SOON_S = 60.0


def gated(files: Mapping[str, bytes]) -> tuple[MemorySource, MemorySource]:
    """Return a source as its owner sees it, and as somebody without credentials does."""
    owner = MemorySource(files, token="right", credentials=Credentials({"HF_TOKEN": "right"}))
    return owner, owner.with_credentials(Credentials())


def test_waiting_for_the_download_of_another_does_not_bypass_the_access_check(
    fetch_blobs: FetchBlobs, store: Store
) -> None:
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
            fetch_blobs(stranger, store, manifest=manifest)
        except AuthDenied as error:
            outcome.append(error)

    first = threading.Thread(target=fetch_blobs, args=(owner, store), kwargs={"manifest": manifest})
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


def test_a_complete_partial_file_of_another_download_also_needs_the_access_check(
    fetch_blobs: FetchBlobs, store: Store, root: Path
) -> None:
    owner, stranger = gated({"weights": WEIGHTS})
    manifest = owner.resolve()
    key = keys_by_path(manifest.uri, manifest.revision, manifest.files)["weights"]
    part = root / "partial" / f"{key}.part"
    part.write_bytes(WEIGHTS)
    part.chmod(0o444)  # as a kill right before the last step leaves it
    with pytest.raises(AuthDenied):
        fetch_blobs(stranger, store, manifest=manifest)
    assert fetch_blobs(owner, store, manifest=manifest).blobs
    assert owner.served_bytes == 1


def test_access_to_an_empty_file_does_not_prove_access_to_the_weights(fetch_blobs: FetchBlobs, store: Store) -> None:
    owner, stranger = gated({"weights": WEIGHTS})
    fetch_blobs(owner, store)
    with_empty, _ = gated({"weights": WEIGHTS, "empty": b""})
    with pytest.raises(AuthDenied):
        fetch_blobs(stranger, store, manifest=with_empty.resolve())


class Asked(MemorySource):
    """A source that records requests and denies access to `denied`."""

    def __init__(self, files: Mapping[str, bytes], denied: str = "") -> None:
        super().__init__(files)
        self.denied, self.opened = denied, list[str]()

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        self.opened.append(file.path)
        if file.path == self.denied:
            raise AuthDenied(f"{file.path} is not for you")
        return super().open(file, offset, length)


class AskedRepository(Asked):
    """A source whose files all have the same readers."""

    shares_rights: Literal[True] = True


MANY = {"weights": WEIGHTS, "empty": b"", "copy": WEIGHTS, **{f"{n:03}.json": b"{%d}" % n for n in range(40)}}


def test_access_to_the_weights_does_not_prove_access_to_a_smaller_file(fetch_blobs: FetchBlobs, store: Store) -> None:
    fetch_blobs(MemorySource(MANY), store)
    with pytest.raises(AuthDenied, match=r"017\.json"):
        fetch_blobs(Asked(MANY, denied="017.json"), store)


def test_access_to_each_content_is_proved_by_requesting_one_byte(fetch_blobs: FetchBlobs, store: Store) -> None:
    fetch_blobs(MemorySource(MANY), store)
    stranger = Asked(MANY)
    assert fetch_blobs(stranger, store).blobs.keys() == MANY.keys()
    assert sorted(stranger.opened) == sorted(
        MANY.keys() - {"empty", "copy" if "weights" in stranger.opened else "weights"}
    )
    assert stranger.served_bytes == len(stranger.opened)


def test_access_to_one_file_of_a_repository_proves_access_to_all(fetch_blobs: FetchBlobs, store: Store) -> None:
    fetch_blobs(MemorySource(MANY), store)
    stranger = AskedRepository(MANY, denied="017.json")
    assert fetch_blobs(stranger, store).blobs.keys() == MANY.keys()
    assert stranger.opened in (["weights"], ["copy"])


def test_a_request_that_fails_for_a_moment_is_retried(fetch_blobs: FetchBlobs, store: Store) -> None:
    fetch_blobs(MemorySource(MANY), store)
    stranger = MemorySource(MANY)
    stranger.faults.on_open = [Unreachable("for a moment"), RateLimited("later", 0.0)]
    assert fetch_blobs(stranger, store).blobs


def test_access_to_each_object_of_a_bucket_is_checked_separately(fetch_blobs: FetchBlobs, store: Store, s3: S3) -> None:
    bucket, files = f"bucket-{uuid.uuid4().hex}", {"config.json": b"{}", "weights": WEIGHTS, "private": b"recipe"}
    for path, body in files.items():
        s3.put(bucket, f"m/{path}", body)
    for_all = [f"arn:aws:s3:::{bucket}/m/{path}" for path in ("config.json", "weights")]
    allow = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": for_all}
    s3.client().put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allow]}))
    settings = SourceSettings(s3_endpoint=s3.endpoint, s3_region=s3.region)
    keys = {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key}
    owner, stranger = (
        open_source(parse_uri(f"s3://{bucket}/m"), credentials, settings)
        for credentials in (Credentials(keys), ANONYMOUS)
    )
    try:
        manifest = owner.resolve()
        fetch_blobs(owner, store, manifest=manifest)
        with pytest.raises(AuthDenied, match="m/private"):
            fetch_blobs(stranger, store, manifest=manifest)
        public = Manifest(manifest.uri, manifest.revision, tuple(f for f in manifest.files if f.path != "private"))
        assert fetch_blobs(stranger, store, manifest=public).received_bytes == 0
    finally:
        owner.close()
        stranger.close()


def test_access_to_a_small_file_does_not_prove_access_to_the_weights(fetch_blobs: FetchBlobs, store: Store) -> None:
    class PublicReadme(MemorySource):
        """A source like a bucket, where each object has its own readers."""

        def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
            if file.path != "README.md":
                raise AuthDenied(f"{file.path} is not for you")
            return super().open(file, offset, length)

    files = {"README.md": b"read me", "weights": WEIGHTS}
    owner = MemorySource(files)
    fetch_blobs(owner, store)
    with pytest.raises(AuthDenied):
        fetch_blobs(PublicReadme(files), store, manifest=owner.resolve())
    newer = PublicReadme(files | {"README.md": b"read me again"})
    with pytest.raises(AuthDenied):
        fetch_blobs(newer, store)


def test_a_failure_that_the_access_check_gets_over_is_not_reported_any_more(
    fetch_blobs: FetchBlobs, store: Store
) -> None:
    source, progress = MemorySource({"weights": WEIGHTS}), Progress()
    fetch_blobs(source, store)
    source.faults.on_open = [Unreachable("a proxy is restarting")]
    fetch_blobs(source, store, progress=progress)
    assert progress.failure is None
