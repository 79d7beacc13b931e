import hashlib
import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import boto3
import pytest
from awscrt.checksums import crc64nvme

from rig.s3 import S3
from shared.errors import AuthDenied, SourceChanged, SourceNotFound, Unreachable, UnsafePath
from shared.manifest import File
from shared.sources.port import ANONYMOUS, Credentials, Source
from shared.sources.settings import SourceSettings
from tests.integration.sources.conftest import OpenWith
from tests.readers.sources import drain

Open = Callable[..., Source]
Client: TypeAlias = Any  # boto3 has no types
PART_BYTES = 5 * 1024 * 1024


@pytest.fixture
def bucket(s3: S3) -> str:
    name = f"bucket-{uuid.uuid4().hex}"
    s3.path(name).mkdir()
    return name


@pytest.fixture
def client(s3: S3) -> Iterator[Client]:
    client = boto3.client(
        "s3",
        endpoint_url=s3.endpoint,
        region_name=s3.region,
        aws_access_key_id=s3.access_key,
        aws_secret_access_key=s3.secret_key,
    )
    yield client
    client.close()


@pytest.fixture
def open_uri(s3: S3, open_with: OpenWith) -> Open:
    keys = {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key}

    def make(uri: str, credentials: Credentials | None = None, endpoint: str = "") -> Source:
        settings = SourceSettings(s3_endpoint=endpoint or s3.endpoint, s3_region=s3.region)
        return open_with(uri, Credentials(keys) if credentials is None else credentials, settings)

    return make


def test_lists_only_objects_below_the_prefix(s3: S3, bucket: str, open_uri: Open, client: Client) -> None:
    for key in ("m/a/x", "m/a/deep/y", "m/a/empty", "m/a-hf/x", "m/ab/x", "m/a.txt", "m/x"):
        s3.put(bucket, key, b"" if key.endswith("empty") else key.encode())
    client.put_object(Bucket=bucket, Key="m/a/marker/", Body=b"")
    manifest = open_uri(f"s3://{bucket}/m/a").resolve()
    assert [(f.path, f.size) for f in manifest.files] == [("deep/y", 10), ("empty", 0), ("x", 5)]
    assert manifest.uri == f"s3://{bucket}/m/a"


def test_a_uri_of_an_object_lists_that_object_alone(s3: S3, bucket: str, open_uri: Open) -> None:
    s3.put(bucket, "m/a.bin", b"exact")
    s3.put(bucket, "m/a.bin-more", b"beside")
    source = open_uri(f"s3://{bucket}/m/a.bin")
    manifest = source.resolve()
    assert [f.path for f in manifest.files] == ["a.bin"]
    assert drain(source, manifest.files[0]) == b"exact"
    assert drain(open_uri(manifest.uri), manifest.files[0]) == b"exact"


def test_a_file_with_the_same_name_as_its_prefix_is_found(s3: S3, bucket: str, open_uri: Open) -> None:
    s3.put(bucket, "m/a/a", b"below")
    source = open_uri(f"s3://{bucket}/m/a")
    assert drain(source, source.resolve().files[0]) == b"below"


def test_lists_more_than_one_page(s3: S3, bucket: str, open_uri: Open) -> None:
    s3.path(bucket, "m").mkdir()
    for number in range(1_003):
        s3.path(bucket, f"m/{number:04}").write_bytes(b"x")
    assert len(open_uri(f"s3://{bucket}/m").resolve().files) == 1_003


def test_uses_only_digests_of_whole_objects(bucket: str, open_uri: Open, client: Client) -> None:
    client.put_object(Bucket=bucket, Key="m/crc32", Body=b"123456789")
    client.put_object(Bucket=bucket, Key="m/sha256", Body=b"two", ChecksumAlgorithm="SHA256")
    client.put_object(Bucket=bucket, Key="m/crc32c", Body=b"123456789", ChecksumCRC32C="4waSgw==")
    client.put_object(Bucket=bucket, Key="m/crc64nvme", Body=b"123456789", ChecksumCRC64NVME="rosUhgp5mIg=")
    upload = client.create_multipart_upload(Bucket=bucket, Key="m/parts")["UploadId"]
    parts = [
        {
            "PartNumber": number,
            "ETag": client.upload_part(Bucket=bucket, Key="m/parts", UploadId=upload, PartNumber=number, Body=body)[
                "ETag"
            ],
        }
        for number, body in ((1, bytes(PART_BYTES)), (2, b"end"))
    ]
    client.complete_multipart_upload(Bucket=bucket, Key="m/parts", UploadId=upload, MultipartUpload={"Parts": parts})
    files = {f.path: f.digest for f in open_uri(f"s3://{bucket}/m").resolve().files}
    assert files == {
        "crc32": "crc32:cbf43926",
        "crc32c": "crc32c:e3069283",
        "crc64nvme": "crc64nvme:ae8b14860a799888",
        "parts": f"crc64nvme:{crc64nvme(bytes(PART_BYTES) + b'end'):016x}",
        "sha256": f"sha256:{hashlib.sha256(b'two').hexdigest()}",
    }


def test_an_overwritten_object_is_reported_as_changed(bucket: str, open_uri: Open, client: Client) -> None:
    client.put_object(Bucket=bucket, Key="m/x", Body=b"AAAA")
    source = open_uri(f"s3://{bucket}/m")
    before = source.resolve()
    client.put_object(Bucket=bucket, Key="m/x", Body=b"BBBB")
    with pytest.raises(SourceChanged, match=f"s3://{bucket}/m/x .* changed"):
        source.open(before.files[0])
    assert source.resolve().revision != before.revision


def test_a_missing_bucket_prefix_or_object_is_reported_as_not_found(bucket: str, open_uri: Open) -> None:
    with pytest.raises(SourceNotFound, match=f"s3://{bucket}/m: the bucket has neither"):
        open_uri(f"s3://{bucket}/m").resolve()
    with pytest.raises(SourceNotFound, match="no such bucket"):
        open_uri("s3://bucket-that-is-not/m").resolve()
    with pytest.raises(SourceNotFound, match="no object"):
        open_uri(f"s3://{bucket}/m").open(File("x", 1))


@pytest.mark.parametrize(
    ("change", "phrase"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "refuses these credentials .*SignatureDoesNotMatch"),
        ({"AWS_ACCESS_KEY_ID": "nobody"}, "refuses these credentials .*InvalidAccessKeyId"),
    ],
)
def test_wrong_keys_are_denied(s3: S3, bucket: str, open_uri: Open, change: dict[str, str], phrase: str) -> None:
    s3.put(bucket, "m/x", b"1")
    keys = {"AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key, **change}
    source = open_uri(f"s3://{bucket}/m", Credentials(keys))
    for act in (source.resolve, lambda: source.open(File("x", 1))):
        with pytest.raises(AuthDenied, match=phrase) as caught:
            act()
        assert s3.secret_key not in str(caught.value)


def test_keys_of_the_environment_are_not_used_without_a_secret(
    s3: S3, bucket: str, open_uri: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.put(bucket, "m/x", b"1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret_key)
    monkeypatch.setenv("AWS_PROFILE", "not-there")
    source = open_uri(f"s3://{bucket}/m", ANONYMOUS)
    for act in (source.resolve, lambda: source.open(File("x", 1))):
        with pytest.raises(AuthDenied, match="name a Secret with AWS_ACCESS_KEY_ID"):
            act()


def test_a_public_bucket_is_read_without_keys(s3: S3, bucket: str, open_uri: Open, client: Client) -> None:
    s3.put(bucket, "m/x", b"public")
    rule = (
        '{"Statement":[{"Effect":"Allow","Principal":"*","Action":["s3:GetObject","s3:ListBucket"],'
        f'"Resource":["arn:aws:s3:::{bucket}","arn:aws:s3:::{bucket}/*"]}}]}}'
    )
    client.put_bucket_policy(Bucket=bucket, Policy=rule)
    source = open_uri(f"s3://{bucket}/m", ANONYMOUS)
    assert drain(source, source.resolve().files[0]) == b"public"


def test_keys_that_are_unsafe_file_names_are_refused(s3: S3, bucket: str, open_uri: Open) -> None:
    s3.put(bucket, "m/.completed", b"1")
    with pytest.raises(UnsafePath, match=r"\.completed"):
        open_uri(f"s3://{bucket}/m").resolve()


def test_a_missing_server_is_reported_as_unreachable(open_uri: Open) -> None:
    source = open_uri("s3://bucket/m", endpoint="http://127.0.0.1:9")
    for act in (source.resolve, lambda: source.open(File("x", 1))):
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1"):
            act()
