"""Objects uploaded in parts by current and older clients are verified by their parts."""

import hashlib
import io
import os
import random
import uuid
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import boto3
import pytest
from awscrt.checksums import crc32c
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

from agent.cli.fetch import run_fetch
from rig.s3 import S3
from shared.manifest import File
from shared.sources.port import Credentials
from shared.sources.schemes import open_source
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri

MIB = 2**20
PART_BYTES = 5 * MIB  # the smallest part that S3 accepts
BODY = random.Random(7).randbytes(2 * PART_BYTES + 2 * MIB + 17)
DIGESTS: dict[str, Callable[[bytes], bytes]] = {
    "crc32": lambda body: zlib.crc32(body).to_bytes(4, "big"),
    "crc32c": lambda body: crc32c(body).to_bytes(4, "big"),
    "sha256": lambda body: hashlib.sha256(body).digest(),
    "md5": lambda body: hashlib.md5(body, usedforsecurity=False).digest(),
}
KINDS = list(DIGESTS)
KEY = "m/weights.safetensors"


@dataclass(frozen=True)
class Shop:
    """A bucket, and how a client uploads an object to it."""

    s3: S3
    bucket: str
    folder: Path

    def upload(self, kind: str, part_bytes: int = PART_BYTES) -> None:
        """Upload a file with boto3; `crc32` is its default, `md5` leaves only an ETag."""
        path = self.folder / "weights"
        path.write_bytes(BODY)
        client = boto3.client(
            "s3", endpoint_url=self.s3.endpoint, region_name=self.s3.region,
            aws_access_key_id=self.s3.access_key, aws_secret_access_key=self.s3.secret_key,
            config=Config(request_checksum_calculation="when_required") if kind == "md5" else None,
        )  # fmt: skip
        extra = {} if kind in ("crc32", "md5") else {"ChecksumAlgorithm": kind.upper()}
        cut = TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=part_bytes)
        client.upload_file(str(path), self.bucket, KEY, ExtraArgs=extra, Config=cut)
        if kind == "md5":
            self.s3.forget_checksums(self.bucket, KEY)

    def listed(self, uri: str = "") -> File:
        """Return the one file of the model."""
        settings = SourceSettings(s3_endpoint=self.s3.endpoint, s3_region=self.s3.region)
        source = open_source(parse_uri(uri or f"s3://{self.bucket}/m"), Credentials(self._keys()), settings)
        try:
            (file,) = source.resolve().files
        finally:
            source.close()
        return file

    def fetch(self) -> tuple[int, str]:
        """Return the command's exit status and output."""
        out, environ = io.StringIO(), {"AWS_ENDPOINT_URL": self.s3.endpoint, "AWS_REGION": self.s3.region}
        environ |= {"HOME": str(self.folder), **self._keys()}
        return run_fetch(f"s3://{self.bucket}/m", self.to, environ, out, out), out.getvalue()

    @property
    def to(self) -> Path:
        """The directory into which the model is fetched."""
        return self.folder / "to"

    def _keys(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": self.s3.access_key, "AWS_SECRET_ACCESS_KEY": self.s3.secret_key}


@pytest.fixture
def shop(s3: S3, tmp_path: Path) -> Shop:
    bucket = f"bucket-{uuid.uuid4().hex}"
    s3.path(bucket).mkdir()
    return Shop(s3, bucket, tmp_path)


def digest_of(kind: str, *parts: bytes) -> str:
    over = DIGESTS[kind](b"".join(map(DIGESTS[kind], parts)))
    return f"{kind}-parts:{over.hex()}-{len(parts)}-{len(parts[0])}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_multipart_object_is_listed_with_the_digest_of_its_parts_and_checked_by_it(shop: Shop, kind: str) -> None:
    shop.upload(kind)
    parts = [BODY[start : start + PART_BYTES] for start in range(0, len(BODY), PART_BYTES)]
    below, exact = shop.listed(), shop.listed(f"s3://{shop.bucket}/{KEY}")
    assert below.digest == exact.digest == digest_of(kind, *parts)
    status, result = shop.fetch()
    assert (status, "verified by digest" in result) == (0, True), result
    assert (shop.to / "weights.safetensors").read_bytes() == BODY


@pytest.mark.parametrize("kind", KINDS)
def test_a_bit_that_flips_unnoticed_by_the_server_is_found(shop: Shop, kind: str) -> None:
    shop.upload(kind)
    with shop.s3.path(shop.bucket, KEY).open("r+b") as stored:
        byte = os.pread(stored.fileno(), 1, PART_BYTES + 5)[0]
        os.pwrite(stored.fileno(), bytes([byte ^ 1]), PART_BYTES + 5)
    status, result = shop.fetch()
    assert status == 1
    assert result.splitlines()[-1].startswith(f"DigestMismatch: 'weights.safetensors': expected {kind}-parts ")
    assert not (shop.to / "weights.safetensors").exists()


def test_the_digest_of_a_single_part_is_that_of_the_whole_object(shop: Shop) -> None:
    client = shop.s3.client()
    upload = client.create_multipart_upload(Bucket=shop.bucket, Key=KEY, ChecksumAlgorithm="SHA256")["UploadId"]
    named = {"Bucket": shop.bucket, "Key": KEY, "UploadId": upload}
    part = client.upload_part(**named, PartNumber=1, Body=b"short", ChecksumAlgorithm="SHA256")
    parts = [{"PartNumber": 1, "ETag": part["ETag"], "ChecksumSHA256": part["ChecksumSHA256"]}]
    client.complete_multipart_upload(**named, MultipartUpload={"Parts": parts})
    assert shop.listed().digest == digest_of("sha256", b"short")
    assert shop.fetch()[0] == 0


def test_an_object_with_parts_of_different_lengths_is_verified_by_size_alone(shop: Shop) -> None:
    """S3fs splits files like this; the first part and the number of parts alone would suggest equal lengths."""
    client = shop.s3.client()
    upload = client.create_multipart_upload(Bucket=shop.bucket, Key=KEY, ChecksumAlgorithm="CRC32")["UploadId"]
    named = {"Bucket": shop.bucket, "Key": KEY, "UploadId": upload}
    parts = []
    for number, size_bytes in enumerate((7 * MIB, 5 * MIB, 6 * MIB), 1):
        part = client.upload_part(**named, PartNumber=number, Body=bytes(size_bytes), ChecksumAlgorithm="CRC32")
        parts.append({"PartNumber": number, "ETag": part["ETag"], "ChecksumCRC32": part["ChecksumCRC32"]})
    client.complete_multipart_upload(**named, MultipartUpload={"Parts": parts})
    assert (shop.listed().digest, shop.listed().size) == ("", 18 * MIB)
    status, result = shop.fetch()
    assert (status, "verified by size" in result) == (0, True), result
