import base64
import json
from collections.abc import Callable
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from rig.scripted_http import Answer, ScriptedRequest, ScriptedServer, reply
from shared.errors import AuthDenied, InvalidURI, LarderError, SourceChanged, SourceNotFound, Unreachable
from shared.manifest import File
from shared.sources.oci.requests import OciRequests, authorization, string_to_sign
from shared.sources.oci.source import OciObjectsSource
from shared.sources.port import ANONYMOUS, Credentials
from shared.sources.rsa import parse_key
from shared.sources.settings import SourceSettings
from shared.uri.buckets import OciObjectsUri
from shared.uri.model_uri import parse_uri

Serve = Callable[[Answer], ScriptedServer]
LABEL = "RSA PRIVATE KEY"
# The key of "Request Signatures, Test Values" in Oracle's documentation, which has it from draft-cavage-http-signatures
# (public, and no account's).
PUBLISHED_KEY = f"""-----BEGIN {LABEL}-----
MIICXgIBAAKBgQDCFENGw33yGihy92pDjZQhl0C36rPJj+CvfSC8+q28hxA161QF
NUd13wuCTUcq0Qd2qsBe/2hFyc2DCJJg0h1L78+6Z4UMR7EOcpfdUE9Hf3m/hs+F
UR45uBJeDK1HSFHD8bHKD6kv8FPGfJTotc+2xjJwoYi+1hqp1fIekaxsyQIDAQAB
AoGBAJR8ZkCUvx5kzv+utdl7T5MnordT1TvoXXJGXK7ZZ+UuvMNUCdN2QPc4sBiA
QWvLw1cSKt5DsKZ8UETpYPy8pPYnnDEz2dDYiaew9+xEpubyeW2oH4Zx71wqBtOK
kqwrXa/pzdpiucRRjk6vE6YY7EBBs/g7uanVpGibOVAEsqH1AkEA7DkjVH28WDUg
f1nqvfn2Kj6CT7nIcE3jGJsZZ7zlZmBmHFDONMLUrXR/Zm3pR5m0tCmBqa5RK95u
412jt1dPIwJBANJT3v8pnkth48bQo/fKel6uEYyboRtA5/uHuHkZ6FQF7OUkGogc
mSJluOdc5t6hI1VsLn0QZEjQZMEOWr+wKSMCQQCC4kXJEsHAve77oP6HtG/IiEn7
kpyUXRNvFsDE0czpJJBvL/aRFUJxuRK91jhjC68sA7NsKMGg5OXb5I5Jj36xAkEA
gIT7aFOYBFwGgQAQkWNKLvySgKbAZRTeLBacpHMuQdl1DfdntvAyqpAZ0lY0RKmW
G6aFKaqQfOXKCyWoUiVknQJAXrlgySFci/2ueKlIE1QqIiLSZ8V8OlpFLRnb1pzI
7U1yQXnTAEFYM560yJlzUpOb1V4cScGd365tiSMvxLOvTA==
-----END {LABEL}-----"""
PUBLISHED_URL = (
    "https://iaas.us-phoenix-1.oraclecloud.com/20160918/instances?availabilityDomain=Pjwf%3A%20PHX-AD-1"
    "&compartmentId=ocid1.compartment.oc1..aaaaaaaam3we6vgnherjq5q2idnccdflvjsnog7mlr6rtdb25gilchfeyjxa"
    "&displayName=TeamXInstances"
    "&volumeId=ocid1.volume.oc1.phx.abyhqljrgvttnlx73nmrwfaux7kcvzfs3s66izvxf2h4lgvyndsdsnoiwr5q"
)
PUBLISHED_SIGNATURE = (
    "GBas7grhyrhSKHP6AVIj/h5/Vp8bd/peM79H9Wv8kjoaCivujVXlpbKLjMPeDUhxkFIWtTtLBj3sUzaFj34XE6YZAHc9r2DmE4pMwOAy/kiITcZxa1o"
    "HPOeRheC0jP2dqbTll8fmTZVwKZOKHYPtrLJIJQHJjNvxFWeHQjMaR7M="
)
PEM = (
    rsa.generate_private_key(public_exponent=65537, key_size=2048)
    .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    .decode()
)
KEYS = {
    "OCI_CLI_TENANCY": "ocid1.tenancy.oc1..a",
    "OCI_CLI_USER": "ocid1.user.oc1..b",
    "OCI_CLI_FINGERPRINT": "20:3b",
    "OCI_CLI_KEY_CONTENT": PEM,
}


def test_the_signature_matches_the_published_example() -> None:
    text = string_to_sign("GET", PUBLISHED_URL, "Thu, 05 Jan 2014 21:31:40 GMT")
    assert base64.b64encode(parse_key(PUBLISHED_KEY).sign(text.encode())).decode() == PUBLISHED_SIGNATURE
    assert authorization("t/u/f", "s") == (
        'Signature version="1",headers="date (request-target) host",keyId="t/u/f",algorithm="rsa-sha256",signature="s"'
    )


class Bucket:
    """Answers as documented for the service; listings have two objects per page."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    def answer(self, asked: ScriptedRequest) -> bytes:
        path, query = urlsplit(asked.target).path, parse_qs(urlsplit(asked.target).query)
        if path == "/n/ns/b/bucket/o":
            return self._list(query["prefix"][0], query.get("start", [""])[0])
        body = self.files.get(unquote(path.removeprefix("/n/ns/b/bucket/o/")))
        if body is None:
            return reply(404, b'{"code": "ObjectNotFound"}')
        etag = f"e{hash(body)}"
        if asked.headers.get("if-match", etag) != etag:
            return reply(412, b'{"code": "IfMatchFailed"}')
        return reply(200, b"" if asked.method == "HEAD" else body, ETag=etag, Content_Length=str(len(body)))

    def _list(self, prefix: str, start: str) -> bytes:
        names = sorted(name for name in self.files if name.startswith(prefix) and name >= start)
        objects = [
            {"name": n, "size": len(self.files[n]), "md5": None, "etag": f"e{hash(self.files[n])}"} for n in names[:2]
        ]
        more = {"nextStartWith": names[2]} if len(names) > 2 else {}
        return reply(200, json.dumps({"objects": objects, "prefixes": [], **more}).encode())


def source_of(server: ScriptedServer, credentials: Credentials = ANONYMOUS, prefix: str = "m") -> OciObjectsSource:
    uri = parse_uri(f"oci://n/ns/b/bucket/o/{prefix}")
    return OciObjectsSource(uri, credentials, SourceSettings(oci_endpoint=server.url))


def read(source: OciObjectsSource, file: File) -> bytes:
    buffer = memoryview(bytearray(100))
    body = source.open(file)
    size = body.readinto(buffer)
    body.close()
    return bytes(buffer[:size])


def test_lists_every_page_below_the_prefix_and_opens_what_it_listed(serve: Serve) -> None:
    names = ["m/a", "m/b c#?%2F", "m/d/", "m/d/x", "m/é", "m-hf/x", "m/m"]
    bucket = Bucket({name: b"" if name.endswith("/") else name.encode() for name in names})
    source = source_of(serve(bucket.answer))
    files = source.resolve().files
    assert {f.path: read(source, f).decode() for f in files} == {
        name[2:]: name for name in names if name.startswith("m/") and not name.endswith("/")
    }
    source.close()


def test_a_uri_that_names_an_object_resolves_to_that_object_alone(serve: Serve) -> None:
    bucket = Bucket({"m/a.bin": b"exact", "m/a.bin/x": b"below"})
    source = source_of(serve(bucket.answer), prefix="m/a.bin")
    [file] = source.resolve().files
    assert (file.path, read(source, file)) == ("a.bin", b"exact")
    bucket.files["m/a.bin"] = b"EXACT"
    with pytest.raises(SourceChanged):
        source.open(file)
    bucket.files.clear()
    with pytest.raises(SourceNotFound):
        source.open(file)
    with pytest.raises(SourceNotFound, match="neither this object"):
        source.resolve()
    source.close()


def test_requests_are_signed_where_there_are_all_keys(serve: Serve) -> None:
    server = serve(Bucket({"m/a": b"x"}).answer)
    for values, signed in ((KEYS, True), ({}, False)):
        source = source_of(server, Credentials(values))
        source.open(File("a", 1)).close()
        source.close()
        header = server.asked[-1].headers.get("authorization", "")
        assert ('keyId="ocid1.tenancy.oc1..a/ocid1.user.oc1..b/20:3b"' in header) is signed
        assert "date" in server.asked[-1].headers
    with pytest.raises(AuthDenied, match="but not OCI_CLI_USER"):
        source_of(server, Credentials({**KEYS, "OCI_CLI_USER": ""})).open(File("a", 1))


@pytest.mark.parametrize(
    "change", [{"OCI_CLI_KEY_CONTENT": "no key"}, {"OCI_CLI_USER": 'u",keyId="x'}, {"OCI_CLI_TENANCY": "a\r\nb"}]
)
def test_keys_that_cannot_sign_are_refused(serve: Serve, change: dict[str, str]) -> None:
    server = serve(lambda _: reply(200))
    with pytest.raises(AuthDenied, match=next(iter(change))):
        source_of(server, Credentials({**KEYS, **change})).resolve()
    assert not server.asked


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (reply(401), AuthDenied),
        (reply(404), SourceNotFound),
        (reply(500), Unreachable),
        (reply(200, b"[]"), Unreachable),
    ],
)
def test_failures_of_object_storage_map_to_errors(serve: Serve, answer: bytes, error: type[LarderError]) -> None:
    source = source_of(serve(lambda asked: reply(404) if asked.method == "HEAD" else answer))
    with pytest.raises(error):
        source.resolve()
    source.close()


def test_the_endpoint_follows_the_region_of_the_secret_or_the_settings() -> None:
    uri = OciObjectsUri("ns", "bucket", "m")

    def requests(settings: SourceSettings, **values: str) -> OciRequests:
        return OciRequests(uri, Credentials({**KEYS, **values}), settings, lambda: 0.0)

    own = requests(SourceSettings(oci_region="uk-london-1"), OCI_CLI_REGION="eu-frankfurt-1")
    assert own.endpoint == "https://objectstorage.eu-frankfurt-1.oraclecloud.com"
    assert own.grant.values
    assert requests(SourceSettings(oci_region="uk-london-1")).endpoint.startswith("https://objectstorage.uk-london-1.")
    for wrong in ("", "evil.test/", "a.b"):
        with pytest.raises(InvalidURI, match="OCI_CLI_REGION"):
            _ = requests(SourceSettings(), OCI_CLI_REGION=wrong).endpoint
    elsewhere = OciRequests(uri, Credentials(KEYS, ("other.test",)), SourceSettings(oci_region="x"), lambda: 0.0)
    assert elsewhere.grant.withheld
