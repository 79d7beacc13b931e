"""The S3 server of the rig: real signatures, objects that are files."""

import hashlib

import boto3
import botocore.exceptions
import pytest

from rig import plain_http
from rig.s3 import S3


def test_an_object_is_stored_as_a_file_with_its_md5_as_etag(s3: S3) -> None:
    etag = s3.put("rig-objects", "models/a/config.json", b"{}")
    assert etag == hashlib.md5(b"{}", usedforsecurity=False).hexdigest()
    assert s3.path("rig-objects", "models/a/config.json").read_bytes() == b"{}"
    listed = s3.client().list_objects_v2(Bucket="rig-objects", Prefix="models/a/")["Contents"]
    assert [(one["Key"], one["ETag"].strip('"')) for one in listed] == [("models/a/config.json", etag)]


def test_ranges_are_served_and_wrong_signatures_are_refused(s3: S3) -> None:
    s3.put("rig-ranges", "file.bin", bytes(range(100)))
    part = s3.client().get_object(Bucket="rig-ranges", Key="file.bin", Range="bytes=10-19")
    assert part["Body"].read() == bytes(range(10, 20))
    url = s3.client().generate_presigned_url("get_object", Params={"Bucket": "rig-ranges", "Key": "file.bin"})
    assert plain_http.get(url).content == bytes(range(100))
    assert plain_http.get(url.replace("Signature=", "Signature=0")).status_code == 403
    stranger = boto3.client(
        "s3",
        endpoint_url=s3.endpoint,
        region_name=s3.region,
        aws_access_key_id=s3.access_key,
        aws_secret_access_key="no",
    )
    with pytest.raises(botocore.exceptions.ClientError, match="SignatureDoesNotMatch"):
        stranger.get_object(Bucket="rig-ranges", Key="file.bin")
