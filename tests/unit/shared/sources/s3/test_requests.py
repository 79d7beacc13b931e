import base64
import hashlib
from collections.abc import Callable

import pytest

from rig.scripted_http import Answer, ScriptedRequest, ScriptedServer, reply
from shared.errors import (
    AuthDenied,
    InvalidURI,
    LarderError,
    RateLimited,
    SourceChanged,
    SourceNotFound,
    TooManyFiles,
    Unreachable,
)
from shared.manifest import File
from shared.sources.credential_hints import S3
from shared.sources.failures import RequestSubject
from shared.sources.host_grants import HostGrant
from shared.sources.port import ANONYMOUS, Credentials
from shared.sources.s3.errors import decide_s3_failure, error_fields
from shared.sources.s3.objects import digest_of
from shared.sources.s3.requests import S3Requests
from shared.sources.s3.source import S3Source
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri

Serve = Callable[[Answer], ScriptedServer]
KEYS = {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "s3cret", "AWS_SESSION_TOKEN": "session"}
SHA256 = base64.b64encode(hashlib.sha256(b"x").digest()).decode()
SHA256_HEX = hashlib.sha256(b"x").hexdigest()
MD5 = "9dd4e461268c8034f5c8564e155c67a6"


@pytest.mark.parametrize(
    ("head", "digest"),
    [
        ({"ETag": f'"{MD5}"'}, f"md5:{MD5}"),
        ({"ETag": f'"{MD5}-4"'}, ""),
        ({"ETag": '"opaque"'}, ""),
        ({}, ""),
        ({"ETag": f'"{MD5}"', "x-amz-server-side-encryption": "AES256"}, f"md5:{MD5}"),
        ({"ETag": f'"{MD5}"', "x-amz-server-side-encryption": "aws:kms"}, ""),
        ({"ETag": f'"{MD5}"', "x-amz-server-side-encryption": "aws:kms:dsse"}, ""),
        ({"ETag": f'"{MD5}"', "x-amz-server-side-encryption-customer-algorithm": "AES256"}, ""),
        ({"ETag": f'"{MD5}"', "x-amz-checksum-sha256": SHA256}, f"sha256:{SHA256_HEX}"),
        (
            {"x-amz-checksum-sha256": SHA256, "x-amz-checksum-type": "FULL_OBJECT"},
            f"sha256:{SHA256_HEX}",
        ),
        ({"ETag": f'"{MD5}-2"', "x-amz-checksum-sha256": SHA256, "x-amz-checksum-type": "COMPOSITE"}, ""),
        ({"ETag": f'"{MD5}-2"', "x-amz-checksum-sha256": f"{SHA256}-2"}, ""),
        ({"ETag": f'"{MD5}"', "x-amz-checksum-sha256": "not base64"}, f"md5:{MD5}"),
        ({"ETag": f'"{MD5}"', "x-amz-checksum-crc32": "9kN1cg=="}, "crc32:f6437572"),
        ({"x-amz-checksum-crc32": "9kN1cg==", "x-amz-checksum-sha256": SHA256}, f"sha256:{SHA256_HEX}"),
        ({"ETag": f'"{MD5}-2"', "x-amz-checksum-crc32": "9kN1cg==", "x-amz-checksum-type": "COMPOSITE"}, ""),
        (
            {"ETag": f'"{MD5}-2"', "x-amz-checksum-crc64nvme": "rosUhgp5mIg=", "x-amz-checksum-type": "FULL_OBJECT"},
            "crc64nvme:ae8b14860a799888",
        ),
    ],
)
def test_an_etag_counts_as_a_digest_only_if_it_is_the_md5_of_the_whole_object(
    head: dict[str, str], digest: str
) -> None:
    assert digest_of(head) == digest


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (404, "NoSuchBucket", SourceNotFound),
        (404, "NoSuchKey", SourceNotFound),
        (404, "", SourceNotFound),
        (403, "AccessDenied", AuthDenied),
        (403, "InvalidAccessKeyId", AuthDenied),
        (403, "SignatureDoesNotMatch", AuthDenied),
        (400, "ExpiredToken", AuthDenied),
        (403, "RequestTimeTooSkewed", AuthDenied),
        (403, "InvalidObjectState", SourceNotFound),
        (412, "PreconditionFailed", SourceChanged),
        (503, "SlowDown", RateLimited),
        (500, "InternalError", Unreachable),
        (301, "PermanentRedirect", Unreachable),
    ],
)
def test_each_s3_error_code_maps_to_its_error(status: int, code: str, error: type[LarderError]) -> None:
    subject = RequestSubject("s3://b/k", S3, HostGrant("s3.test", {"AWS_ACCESS_KEY_ID": "a"}))
    failure = decide_s3_failure(status, {}, {"Code": code}, subject, 0.0)
    assert type(failure) is error
    assert "s3://b/k" in str(failure) or "s3.test" in str(failure)


@pytest.mark.parametrize(
    ("headers", "after_s", "until"),
    [
        ({}, 5, "12:00:05Z"),
        ({"Retry-After": "30"}, 30, "12:00:30Z"),
        ({"Retry-After": "Thu, 01 Jan 1970 12:01:00 GMT"}, 60, "12:01:00Z"),
        ({"Retry-After": "soon"}, 5, "12:00:05Z"),
    ],
)
@pytest.mark.parametrize(
    ("status", "code"), [(503, "SlowDown"), (429, "TooManyRequests"), (503, "RequestLimitExceeded")]
)
def test_a_throttled_request_reports_how_long_to_wait_and_until_when(
    status: int, code: str, headers: dict[str, str], after_s: float, until: str
) -> None:
    subject = RequestSubject("s3://b/k", S3, HostGrant("s3.test"))
    failure = decide_s3_failure(status, headers, {"Code": code}, subject, 12 * 3600)
    assert isinstance(failure, RateLimited)
    assert failure.after_s == after_s
    assert str(failure) == f"s3.test asks to wait {after_s} s (until {until}) before s3://b/k"


@pytest.mark.parametrize("act", [S3Source.resolve, lambda source: source.open(File("f", 3))], ids=["list", "open"])
def test_slow_down_responses_delay_the_next_request_as_stated(serve: Serve, act: Callable[[S3Source], object]) -> None:
    slow_down = reply(503, b"<Error><Code>SlowDown</Code></Error>", Retry_After="30")
    server = serve(lambda asked: reply(404) if asked.method == "HEAD" else slow_down)
    source = S3Source(parse_uri("s3://bucket/p"), ANONYMOUS, SourceSettings(s3_endpoint=server.url))
    with pytest.raises(RateLimited, match=r"asks to wait 30 s \(until ") as caught:
        act(source)
    source.close()
    assert caught.value.after_s == 30


@pytest.mark.parametrize(
    ("status", "code"), [(301, "PermanentRedirect"), (301, ""), (400, "AuthorizationHeaderMalformed")]
)
def test_a_bucket_in_another_region_is_reported_with_the_uri_to_use(status: int, code: str) -> None:
    subject = RequestSubject("s3://b/k", S3, HostGrant("s3.test"))
    failure = decide_s3_failure(status, {"x-amz-bucket-region": "eu-west-3"}, {"Code": code}, subject, 0.0)
    assert isinstance(failure, InvalidURI)
    assert "s3://BUCKET@eu-west-3/PREFIX" in str(failure)


def test_a_wrong_clock_is_explained() -> None:
    body = b"<Error><Code>RequestTimeTooSkewed</Code><ServerTime>2026-11-21T00:00:00Z</ServerTime></Error>"
    subject = RequestSubject("s3://b/k", S3, HostGrant("s3.test"))
    assert "2026-11-21T00:00:00Z); correct the clock" in str(
        decide_s3_failure(403, {}, error_fields(body), subject, 0.0)
    )


def test_an_answer_that_is_not_an_s3_error_document_has_no_error_fields() -> None:
    assert error_fields(b"<html>\xff</html>") == {}


@pytest.mark.parametrize(
    ("region", "settings", "endpoint"),
    [
        ("eu-west-1", SourceSettings(), "https://s3.eu-west-1.amazonaws.com"),
        ("cn-north-1", SourceSettings(), "https://s3.cn-north-1.amazonaws.com.cn"),
        ("eu-west-1", SourceSettings(s3_endpoint="http://s3.test:9"), "http://s3.test:9"),
    ],
)
def test_the_endpoint_follows_from_region_and_settings(region: str, settings: SourceSettings, endpoint: str) -> None:
    assert S3Requests("bucket", region, ANONYMOUS, settings).endpoint == endpoint


@pytest.mark.parametrize(
    ("bucket", "settings", "url"),
    [
        ("bucket", SourceSettings(), "https://bucket.s3.us-east-1.amazonaws.com/p/a%20%23%3F%252F/%C3%A9"),
        ("a.bucket", SourceSettings(), "https://s3.us-east-1.amazonaws.com/a.bucket/p/a%20%23%3F%252F/%C3%A9"),
        ("bucket", SourceSettings(s3_endpoint="http://h:9/x"), "http://h:9/x/bucket/p/a%20%23%3F%252F/%C3%A9"),
    ],
)
def test_object_urls_are_quoted_and_use_the_right_addressing_style(
    bucket: str, settings: SourceSettings, url: str
) -> None:
    assert S3Requests(bucket, "us-east-1", ANONYMOUS, settings).url_of("p/a #?%2F/é") == url


@pytest.mark.parametrize("region", ["x.evil.test/#", "", "eu west", "EU"])
def test_a_region_that_cannot_be_part_of_a_host_name_is_refused(region: str) -> None:
    with pytest.raises(InvalidURI, match="is not a region"):
        S3Requests("bucket", region, ANONYMOUS, SourceSettings())


def open_from(server: ScriptedServer, credentials: Credentials) -> ScriptedRequest:
    source = S3Source(parse_uri("s3://bucket/p"), credentials, SourceSettings(s3_endpoint=server.url))
    try:
        source.open(File("f", 3, etag='"e"')).close()
    finally:
        source.close()
    return server.asked[-1]


def test_signs_for_the_configured_endpoint_and_never_sends_the_secret_key(serve: Serve) -> None:
    asked = open_from(serve(lambda _: reply(200, b"abc")), Credentials(KEYS))
    assert asked.target == "/bucket/p/f"
    assert asked.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIA/")
    assert "if-match" in asked.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0]
    assert asked.headers["x-amz-security-token"] == "session"
    assert asked.headers["if-match"] == '"e"'
    assert "s3cret" not in str(asked)


def test_requests_without_keys_are_unsigned(serve: Serve) -> None:
    asked = open_from(serve(lambda _: reply(200, b"abc")), ANONYMOUS)
    assert not {"authorization", "x-amz-security-token", "x-amz-date"} & set(asked.headers)


def test_a_signed_request_is_not_redirected(serve: Serve) -> None:
    other = serve(lambda _: reply(200, b"abc"))
    with pytest.raises(Unreachable, match="not followed"):
        open_from(serve(lambda _: reply(307, Location=f"{other.url}/x")), Credentials(KEYS))
    assert other.asked == []


def test_credentials_for_another_host_are_withheld_and_the_message_has_a_remedy() -> None:
    requests = S3Requests("bucket", "us-east-1", Credentials(KEYS, ("s3.test",)), SourceSettings())
    assert requests.build_request("GET", "p", {}).secrets == {}
    failure = decide_s3_failure(403, {}, {"Code": "AccessDenied"}, RequestSubject("s3://b/p", S3, requests.grant), 0.0)
    assert "add s3.us-east-1.amazonaws.com to the Secret's annotation larder.dev/hosts" in str(failure)


def test_a_file_named_like_the_prefix_is_tried_as_the_object_and_then_below_it(serve: Serve) -> None:
    below = serve(lambda asked: reply(200, b"abc") if asked.target == "/bucket/m/a/a" else reply(404))
    source = S3Source(parse_uri("s3://bucket/m/a"), ANONYMOUS, SourceSettings(s3_endpoint=below.url))
    for _ in range(2):
        source.open(File("a", 3)).close()
    assert [asked.target for asked in below.asked] == ["/bucket/m/a", "/bucket/m/a/a", "/bucket/m/a/a"]
    source.close()


def test_signs_for_the_region_that_the_server_names(serve: Serve) -> None:
    def answer(asked: ScriptedRequest) -> bytes:
        if "/eu-west-3/s3/" in asked.headers["authorization"]:
            return reply(200, Content_Length="3", ETag='"e"')
        return reply(400, x_amz_bucket_region="eu-west-3")

    source = S3Source(parse_uri("s3://bucket/p/f"), Credentials(KEYS), SourceSettings(s3_endpoint=serve(answer).url))
    assert source.resolve().files == (File("f", 3, etag='"e"'),)
    source.close()


def test_a_whole_bucket_is_listed_in_the_region_that_the_server_names(serve: Serve) -> None:
    def answer(asked: ScriptedRequest) -> bytes:
        if "/eu-west-3/s3/" not in asked.headers["authorization"]:
            return reply(400, x_amz_bucket_region="eu-west-3")
        listed = b"<ListBucketResult><Contents><Key>f</Key><Size>3</Size></Contents></ListBucketResult>"
        return reply(200, listed) if "list-type" in asked.target else reply(200, Content_Length="3", ETag='"e"')

    source = S3Source(parse_uri("s3://bucket"), Credentials(KEYS), SourceSettings(s3_endpoint=serve(answer).url))
    assert source.resolve().files == (File("f", 3, etag='"e"'),)
    source.close()


def test_the_uri_is_pinned_to_the_region_on_aws_alone() -> None:
    source = S3Source(parse_uri("s3://bucket/p"), ANONYMOUS, SourceSettings(s3_region="eu-west-1"))
    assert str(source._pinned()) == "s3://bucket@eu-west-1/p"


def test_a_listing_over_the_file_limit_is_refused_before_its_objects_are_requested(serve: Serve) -> None:
    def answer(asked: ScriptedRequest) -> bytes:
        if asked.method == "HEAD":
            return reply(404)
        entries = b"".join(b"<Contents><Key>p/%05d</Key><Size>1</Size></Contents>" % i for i in range(16_000))
        token = b"<NextContinuationToken>%d</NextContinuationToken>" % len(server.asked)
        more = b"<IsTruncated>true</IsTruncated>" + token
        return reply(200, b"<ListBucketResult>" + more + entries + b"</ListBucketResult>")

    server = serve(answer)
    source = S3Source(parse_uri("s3://bucket/p"), Credentials(KEYS), SourceSettings(s3_endpoint=server.url))
    with pytest.raises(TooManyFiles, match="s3://bucket/p has more than 100000"):
        source.resolve()
    source.close()
    assert [asked.method for asked in server.asked] == ["HEAD", *["GET"] * 7]
