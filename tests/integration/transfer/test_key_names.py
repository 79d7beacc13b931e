"""Downloads to a temporary store: only the publisher's own digests are computed."""

import hashlib
import os
import threading
import zlib
from pathlib import Path

import pytest

from agent.store.content_keys import keys_by_path
from agent.store.download_plan import DownloadPlan
from agent.store.store import Store
from agent.transfer.engine import FetchResult, fetch
from agent.transfer.progress import Progress
from shared.errors import DigestMismatch
from shared.manifest import File, Manifest
from shared.sources.memory import MemorySource
from shared.sources.retry import RetryPolicy

LARGE, SMALL = os.urandom(6 * 2**20 + 1), b"{}"
BODIES = {"large": LARGE, "small": SMALL, "same": SMALL}


def fetch_blobs(manifest: Manifest, store: Store, source: MemorySource) -> FetchResult:
    return fetch(
        source,
        DownloadPlan(manifest),
        store,
        progress=Progress(),
        stop=threading.Event(),
        policy=RetryPolicy(attempts=3, timeout_s=5, first_s=0.001, cap_s=0.01),
        prove_access=False,
        sha256=False,
    )


def digest_of(body: bytes, algorithm: str) -> str:
    match algorithm:
        case "crc32":
            return f"crc32:{zlib.crc32(body):08x}"
        case "sha256":
            return f"sha256:{hashlib.sha256(body).hexdigest()}"
        case _:
            return ""


def listed(algorithm: str) -> Manifest:
    """Return the manifest with CRC-32 digests, SHA-256 digests, or none."""
    files = (File(path, len(body), digest_of(body, algorithm)) for path, body in BODIES.items())
    return Manifest("s3://bkt/m", "r", tuple(files))


@pytest.mark.parametrize("digest", ["crc32", "sha256", ""])
def test_blobs_are_named_by_their_contents_keys_unless_a_sha256_was_computed(
    digest: str, root: Path, store: Store
) -> None:
    manifest = listed(digest)
    found = fetch_blobs(manifest, store, MemorySource(BODIES))
    by_sha256 = {path: hashlib.sha256(body).hexdigest() for path, body in BODIES.items()}
    by_key = keys_by_path(manifest.uri, manifest.revision, manifest.files)
    assert found.blobs == (by_sha256 if digest == "sha256" else by_key)
    assert {path: store.blobs.path(blob).read_bytes() for path, blob in found.blobs.items()} == BODIES
    assert found.verified == ("digest" if digest else "size")
    store.close()
    again = Store.open(root)
    try:
        again.recover()
        assert fetch_blobs(manifest, again, MemorySource({})) == FetchResult(found.blobs, found.verified, 0)
    finally:
        again.close()


@pytest.mark.parametrize("digest", ["crc32", "sha256"])
@pytest.mark.parametrize("path", ["large", "small"])
def test_a_file_with_a_wrong_digest_is_refused(digest: str, path: str, store: Store) -> None:
    source, manifest = MemorySource(BODIES), listed(digest)
    source.faults.corrupt.add(path)
    with pytest.raises(DigestMismatch, match=path):
        fetch_blobs(manifest, store, source)
    key = keys_by_path(manifest.uri, manifest.revision, manifest.files)[path]
    assert not store.blobs.path(key).exists()
