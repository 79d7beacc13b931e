import hashlib
import random
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest
from awscrt.checksums import crc32c, crc64nvme

from rig.source_fixtures import SourceFixture, StoredModel
from shared.errors import AuthDenied, SourceChanged, SourceNotFound
from shared.manifest import File, Manifest
from shared.sources.port import ANONYMOUS, Credentials, Source
from tests.readers.sources import drain as drain_file

BIG = random.Random(3).randbytes(300_000)
FILES = {"big.safetensors": BIG, "config.json": b"{}", "deep/er/empty": b"", "deep/tokenizer.json": b"[1]"}

drain = partial(drain_file, buffer_bytes=1000)  # several reads, also for small files


@contextmanager
def opened(stored: StoredModel, credentials: Credentials | None = None, uri: str = "") -> Iterator[Source]:
    source = stored.open(uri or stored.uri, credentials or stored.good)
    try:
        yield source
    finally:
        source.close()


def file_of(manifest: Manifest, path: str) -> File:
    return next(f for f in manifest.files if f.path == path)


def is_digest_of(digest: str, body: bytes) -> bool:
    kind, _, value = digest.partition(":")
    made = {
        "sha256": hashlib.sha256(body).hexdigest(),
        "md5": hashlib.md5(body, usedforsecurity=False).hexdigest(),
        "git-sha1": hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False).hexdigest(),
        "crc32": f"{zlib.crc32(body):08x}",
        "crc32c": f"{crc32c(body):08x}",
        "crc64nvme": f"{crc64nvme(body):016x}",
    }
    return made[kind] == value


def test_lists_every_file_with_its_size_and_a_correct_digest(source_fixture: SourceFixture) -> None:
    stored = source_fixture.store_model(FILES)
    with opened(stored) as source:
        manifest = source.resolve()
    assert [(f.path, f.size) for f in manifest.files] == sorted((p, len(b)) for p, b in stored.files.items())
    assert all(is_digest_of(f.digest, stored.files[f.path]) for f in manifest.files if f.digest)
    assert all(f.digest for f in manifest.files) or not source_fixture.vouched


def test_resolving_twice_gives_equal_manifests(source_fixture: SourceFixture) -> None:
    stored = source_fixture.store_model(FILES)
    with opened(stored) as source:
        assert source.resolve() == source.resolve()


def test_files_can_be_opened_from_the_manifest_alone(source_fixture: SourceFixture) -> None:
    stored = source_fixture.store_model(FILES)
    with opened(stored) as source:
        manifest = source.resolve()
    with opened(stored, uri=manifest.uri) as source:
        assert {f.path: drain(source, f) for f in manifest.files} == stored.files


@pytest.mark.parametrize(
    ("offset", "length"),
    [(0, None), (0, 1), (5, 10), (123_456, None), (299_999, None), (299_000, 5_000), (300_000, None), (7, 0)],
)
def test_any_byte_range_of_a_file_can_be_read(source_fixture: SourceFixture, offset: int, length: int | None) -> None:
    stored = source_fixture.store_model(FILES)
    end = None if length is None else offset + length
    with opened(stored) as source:
        file = file_of(source.resolve(), "big.safetensors")
        assert drain(source, file, offset, length) == BIG[offset:end]


def test_reads_into_buffers_of_any_size(source_fixture: SourceFixture) -> None:
    stored = source_fixture.store_model({"big.safetensors": BIG})
    with opened(stored) as source:
        file = source.resolve().files[0]
        assert {drain(source, file, buffer_bytes=size) for size in (4_097, 1 << 20)} == {BIG}


def test_many_ranges_can_be_read_concurrently(source_fixture: SourceFixture) -> None:
    stored = source_fixture.store_model({"big.safetensors": BIG})
    with opened(stored) as source, ThreadPoolExecutor(6) as threads:
        file = source.resolve().files[0]
        parts = threads.map(lambda start: drain(source, file, start, 10_000), range(0, len(BIG), 10_000))
        assert b"".join(parts) == BIG


def test_a_body_may_be_left_early_and_closed_twice(source_fixture: SourceFixture) -> None:
    stored = source_fixture.store_model({"big.safetensors": BIG})
    with opened(stored) as source:
        file = source.resolve().files[0]
        body = source.open(file)
        assert body.readinto(memoryview(bytearray(10))) > 0
        body.close()
        body.close()
        assert drain(source, file, 10, 20) == BIG[10:30]


@pytest.mark.parametrize("name", ["モデル é.bin", "a b#c?d%2Fe%20+&=;@'!.bin", "~(x)*$,:.json", "-"])
def test_unusual_file_names_are_read(source_fixture: SourceFixture, name: str) -> None:
    stored = source_fixture.store_model({name: b"body"})
    with opened(stored) as source:
        file = source.resolve().files[0]
        assert (file.path, drain(source, file)) == (name, b"body")


def test_a_missing_model_raises_not_found(source_fixture: SourceFixture) -> None:
    stored = source_fixture.store_model(FILES, private=True)
    if not source_fixture.pinned:
        for path in stored.files:
            stored.change(path, None)
    with opened(stored, uri=f"{stored.uri}-not") as source, pytest.raises(SourceNotFound):
        source.resolve()


@pytest.mark.parametrize("end", ["", "/"])
def test_a_uri_of_a_bucket_means_everything_in_it(bucket_fixture: SourceFixture, end: str) -> None:
    stored = bucket_fixture.store_model(FILES)
    bucket = stored.uri.removesuffix("/models/m")
    with opened(stored, uri=f"{bucket}{end}") as source:
        manifest = source.resolve()
    assert [f.path for f in manifest.files] == sorted(f"models/m/{path}" for path in stored.files)
    with opened(stored, uri=manifest.uri) as source:
        assert {f.path.removeprefix("models/m/"): drain(source, f) for f in manifest.files} == stored.files


def test_an_empty_bucket_is_reported_as_empty(bucket_fixture: SourceFixture) -> None:
    stored = bucket_fixture.store_model({"one": b"1"})
    stored.change("one", None)
    bucket = stored.uri.removesuffix("/models/m")
    with opened(stored, uri=bucket) as source, pytest.raises(SourceNotFound, match="is empty"):
        source.resolve()


def test_a_missing_file_raises_not_found(source_fixture: SourceFixture) -> None:
    stored = source_fixture.store_model({"one": b"1", "two": b"2"} if source_fixture.many else {"one": b"1"})
    with opened(stored) as source:
        file = file_of(source.resolve(), "one")
        if source_fixture.pinned:
            file = File("never", 1)
        else:
            stored.change("one", None)
        with pytest.raises(SourceNotFound):
            source.open(file)


@pytest.mark.parametrize("body", [b"other size", b"BBBB"])
def test_a_file_that_changes_after_it_was_listed_is_noticed_or_pinned(
    source_fixture: SourceFixture, body: bytes
) -> None:
    stored = source_fixture.store_model({"one": b"AAAA"})
    with opened(stored) as source:
        file = source.resolve().files[0]
        stored.change("one", body)
        if source_fixture.pinned:
            assert drain(source, file) == b"AAAA"
        elif file.etag or len(body) != file.size:
            with pytest.raises(SourceChanged):
                source.open(file)


def test_a_private_source_requires_valid_credentials(guarded: SourceFixture) -> None:
    stored = guarded.store_model(FILES, private=True)
    with opened(stored) as source:
        manifest = source.resolve()
        assert drain(source, manifest.files[0])
    for credentials in (stored.wrong, ANONYMOUS):
        with opened(stored, credentials) as source:
            # A hub reports a private repository as missing.
            with pytest.raises((AuthDenied, SourceNotFound)):
                source.resolve()
            with pytest.raises((AuthDenied, SourceNotFound)):
                source.open(manifest.files[0])


def test_wrong_credentials_are_denied_and_not_repeated(guarded: SourceFixture) -> None:
    stored = guarded.store_model(FILES, private=True)
    with opened(stored) as source:
        manifest = source.resolve()
    with opened(stored, stored.wrong) as source:
        for act in (source.resolve, lambda: source.open(manifest.files[0])):
            with pytest.raises(AuthDenied) as caught:
                act()
            assert not _values(stored.good) & set(str(caught.value).split())


def _values(credentials: Credentials) -> set[str]:
    secrets: Mapping[str, str] = credentials.values
    return set(secrets.values())
