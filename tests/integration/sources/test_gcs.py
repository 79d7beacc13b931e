import uuid
from collections.abc import Callable

import httpx
import pytest
from awscrt.checksums import crc32c

from rig.gcs import Gcs
from shared.errors import InvalidURI, SourceChanged, SourceNotFound, UnsafePath
from shared.manifest import File
from shared.sources.port import ANONYMOUS, Source
from shared.sources.settings import SourceSettings
from tests.integration.sources.conftest import OpenWith
from tests.readers.sources import drain

Open = Callable[[str], Source]


@pytest.fixture
def bucket(gcs: Gcs) -> str:
    name = f"bucket-{uuid.uuid4().hex}"
    gcs.make_bucket(name)
    return name


@pytest.fixture
def open_uri(gcs: Gcs, open_with: OpenWith) -> Open:
    return lambda uri: open_with(uri, ANONYMOUS, SourceSettings(gcs_endpoint=gcs.endpoint))


def test_lists_only_objects_below_the_prefix(gcs: Gcs, bucket: str, open_uri: Open) -> None:
    for key in ("m/a/x", "m/a/deep/y", "m/a/empty", "m/a/marker/", "m/a-hf/x", "m/ab/x", "m/a.txt", "m/x"):
        gcs.put(bucket, key, b"" if key.endswith(("empty", "/")) else key.encode())
    manifest = open_uri(f"gs://{bucket}/m/a/").resolve()
    assert [(f.path, f.size) for f in manifest.files] == [("deep/y", 10), ("empty", 0), ("x", 5)]
    assert all(f.etag.isdigit() for f in manifest.files)


def test_a_uri_of_an_object_lists_that_object_alone(gcs: Gcs, bucket: str, open_uri: Open) -> None:
    gcs.put(bucket, "m/a.bin", b"exact")
    gcs.put(bucket, "m/a.bin-more", b"beside")
    source = open_uri(f"gs://{bucket}/m/a.bin")
    manifest = source.resolve()
    assert [f.path for f in manifest.files] == ["a.bin"]
    assert drain(open_uri(manifest.uri), manifest.files[0]) == b"exact"


def test_a_file_with_the_same_name_as_its_prefix_is_found(gcs: Gcs, bucket: str, open_uri: Open) -> None:
    gcs.put(bucket, "m/a/a", b"below")
    source = open_uri(f"gs://{bucket}/m/a")
    assert drain(source, source.resolve().files[0]) == b"below"


def test_lists_more_than_one_page(gcs: Gcs, bucket: str, open_uri: Open) -> None:
    for number in range(1_003):
        gcs.put(bucket, f"m/{number:04}", b"x")
    assert len(open_uri(f"gs://{bucket}/m").resolve().files) == 1_003


def test_a_composed_object_is_listed_with_its_checksum(gcs: Gcs, bucket: str, open_uri: Open) -> None:
    gcs.put(bucket, "m/a", b"one")
    gcs.put(bucket, "m/b", b"two")
    parts = {"sourceObjects": [{"name": "m/a"}, {"name": "m/b"}], "destination": {}}
    gcs.client.post(f"/storage/v1/b/{bucket}/o/m%2Fc/compose", json=parts).raise_for_status()
    source = open_uri(f"gs://{bucket}/m")
    files = {f.path: f for f in source.resolve().files}
    assert files["a"].digest == f"crc32c:{crc32c(b'one'):08x}"
    assert files["c"].digest == f"crc32c:{crc32c(b'onetwo'):08x}"
    assert drain(source, files["c"]) == b"onetwo"


def test_an_object_stored_with_gzip_encoding_is_refused(gcs: Gcs, bucket: str, open_uri: Open) -> None:
    place = f"/upload/storage/v1/b/{bucket}/o"
    query = {"uploadType": "media", "name": "m/config.json", "contentEncoding": "gzip"}
    gcs.client.post(place, params=query, content=b"zzz").raise_for_status()
    with pytest.raises(InvalidURI, match="gzip"):
        open_uri(f"gs://{bucket}/m").resolve()


def test_an_overwritten_object_is_reported_as_changed(gcs: Gcs, bucket: str, open_uri: Open) -> None:
    gcs.put(bucket, "m/x", b"AAAA")
    source = open_uri(f"gs://{bucket}/m")
    before = source.resolve()
    gcs.put(bucket, "m/x", b"BBBB")
    with pytest.raises(SourceChanged, match=f"gs://{bucket}/m/x changed"):
        source.open(before.files[0])
    after = source.resolve()
    assert after.revision != before.revision
    assert drain(source, after.files[0]) == b"BBBB"


def test_a_missing_bucket_prefix_or_object_is_reported_as_not_found(bucket: str, open_uri: Open) -> None:
    with pytest.raises(SourceNotFound, match="the bucket has neither"):
        open_uri(f"gs://{bucket}/m").resolve()
    with pytest.raises(SourceNotFound):
        open_uri("gs://bucket-that-is-not/m").resolve()
    with pytest.raises(SourceNotFound):
        open_uri(f"gs://{bucket}/m").open(File("x", 1, etag="5"))


def test_keys_that_are_unsafe_file_names_are_refused(gcs: Gcs, bucket: str, open_uri: Open) -> None:
    gcs.put(bucket, "m/a/../b", b"1")
    with pytest.raises(UnsafePath):
        open_uri(f"gs://{bucket}/m").resolve()


def test_the_test_server_refuses_anonymous_reads_of_a_private_bucket(gcs: Gcs, bucket: str) -> None:
    assert httpx.get(f"{gcs.endpoint}/storage/v1/b/{bucket}/o", trust_env=False, timeout=60).status_code == 200
    gcs.private.add(bucket)
    assert httpx.get(f"{gcs.endpoint}/storage/v1/b/{bucket}/o", trust_env=False, timeout=60).status_code == 401
