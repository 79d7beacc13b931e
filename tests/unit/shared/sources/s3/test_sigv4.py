"""Signatures of S3 requests, compared with the published example and another implementation."""

import calendar
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from shared.sources.s3.sigv4 import Keys, Signer

# https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html, "Example: GET Object"
ACCESS, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
EXAMPLE_S = calendar.timegm((2013, 5, 24, 0, 0, 0))


def test_the_published_example_has_its_published_signature() -> None:
    url = "https://examplebucket.s3.amazonaws.com/test.txt"
    own = Signer(Keys(ACCESS, SECRET), "us-east-1").sign("GET", url, {"Range": "bytes=0-9"}, EXAMPLE_S)
    assert own["Authorization"] == (
        f"AWS4-HMAC-SHA256 Credential={ACCESS}/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    )


@pytest.mark.parametrize("token", ["", "a/session=token"])
@pytest.mark.parametrize(
    "url",
    [
        "https://bucket.s3.eu-west-1.amazonaws.com/folder/a.txt",
        "http://127.0.0.1:9000/bucket/folder/a.txt",
        f"http://store.example/bucket/{quote('a b/ä+%~(1)=!', safe='/-_.~')}",
        "https://[::1]:443/bucket/a",
        "https://bucket.s3.eu-west-1.amazonaws.com/folder/a%20b?partNumber=1",
        "http://store.example/bucket?continuation-token=a%2Fb%3D&list-type=2&prefix=m%20%2B/",
    ],
)
def test_signatures_equal_those_of_botocore(url: str, token: str) -> None:
    headers = {"If-Match": '"0123"', "x-amz-checksum-mode": "ENABLED", "X-Spaces": " a   b "}
    own = Signer(Keys(ACCESS, SECRET, token), "eu-west-1").sign("HEAD", url, headers, EXAMPLE_S)
    assert own == _by_botocore("HEAD", url, headers, token, "eu-west-1")


def test_a_cached_signing_key_is_replaced_when_the_day_changes() -> None:
    signer, url = Signer(Keys(ACCESS, SECRET), "us-east-1"), "https://b.s3.amazonaws.com/a"
    for now in (EXAMPLE_S, EXAMPLE_S + 86_400, EXAMPLE_S):
        fresh = Signer(Keys(ACCESS, SECRET), "us-east-1")
        assert signer.sign("GET", url, {}, now) == fresh.sign("GET", url, {}, now)


def test_keys_do_not_show_their_secrets() -> None:
    shown = repr(Keys(ACCESS, SECRET, "a-token"))
    assert SECRET not in shown
    assert "a-token" not in shown


def _by_botocore(method: str, url: str, headers: dict[str, str], token: str, region: str) -> dict[str, str]:
    request = AWSRequest(method, url, headers=dict(headers))
    signer = S3SigV4Auth(Credentials(ACCESS, SECRET, token or None), "s3", region)
    stamp = datetime.fromtimestamp(EXAMPLE_S, UTC).strftime("%Y%m%dT%H%M%SZ")
    # The parts of `add_auth`, without the clock that it reads.
    request.context["timestamp"] = stamp
    signer._modify_request_before_signing(request)
    text = signer.string_to_sign(request, signer.canonical_request(request))
    signer._inject_signature_to_request(request, signer.signature(text, request))
    return {name: value for name, value in request.headers.items() if name not in headers}
