import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import InvalidURI
from shared.uri.model_uri import parse_declared, parse_uri, sub_path_of


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("hf://org/model", "hf://org/model@main"),
        ("hf://org/model/", "hf://org/model@main"),
        ("hf://org/model@v1.0", "hf://org/model@v1.0"),
        ("hf://org/model:v1.0", "hf://org/model@v1.0"),
        ("hf://org/model@refs/pr/3", "hf://org/model@refs/pr/3"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket//", "s3://bucket"),
        ("s3://bucket@eu-west-1/", "s3://bucket@eu-west-1"),
        ("s3://bucket@eu-west-1@s3.test:443", "s3://bucket@eu-west-1@s3.test:443"),
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("s3://bucket//a/b", "s3://bucket/a/b"),
        ("s3://bucket@eu-west-1/a", "s3://bucket@eu-west-1/a"),
        ("s3://bucket@s3.test:443/a", "s3://bucket@s3.test:443/a"),
        ("s3://bucket@eu-west-1@s3.test:443/a/", "s3://bucket@eu-west-1@s3.test:443/a"),
        ("https://host/a/model.gguf", "https://host/a/model.gguf"),
        ("https://host:8443/a?version=3", "https://host:8443/a?version=3"),
        ("gs://bucket/", "gs://bucket"),
        ("gs://bucket/a/b/", "gs://bucket/a/b"),
        ("gs://my_bucket.example.org//a", "gs://my_bucket.example.org/a"),
        ("az://account/container/", "az://account/container"),
        ("az://account.blob.core.windows.net/container", "az://account/container"),
        ("https://account.blob.core.windows.net/blob", "https://account.blob.core.windows.net/blob"),
        ("az://account/container/a/b/", "az://account/container/a/b"),
        ("az://account.blob.core.windows.net/container/a", "az://account/container/a"),
        ("https://account.blob.core.windows.net/container/a%20b/c/", "az://account/container/a b/c"),
        (
            "https://account.blob.core.windows.net/container/a?versionid=1",
            "https://account.blob.core.windows.net/container/a?versionid=1",
        ),
        (
            "https://account.blob.core.windows.net:444/container/a",
            "https://account.blob.core.windows.net:444/container/a",
        ),
        ("https://account.blob.core.windows.net/c/%2E%2E", "https://account.blob.core.windows.net/c/%2E%2E"),
        ("https://x.account.blob.core.windows.net/container/a", "https://x.account.blob.core.windows.net/container/a"),
        ("az://account/$web/a", "az://account/$web/a"),
        ("az://account/a-b/c", "az://account/a-b/c"),
        ("oci://n/ns/b/bucket", "oci://n/ns/b/bucket/o"),
        ("oci://n/ns/b/bucket/o/", "oci://n/ns/b/bucket/o"),
        ("oci://bucket@ns", "oci://n/ns/b/bucket/o"),
        ("oci://n/ns/b/bucket/o/a/b/", "oci://n/ns/b/bucket/o/a/b"),
        ("oci://bucket@ns/a/b", "oci://n/ns/b/bucket/o/a/b"),
        ("oci://oci.test/org/model", "oci://oci.test/org/model:latest"),
        ("oci://oci.test/org/model:v1.0", "oci://oci.test/org/model:v1.0"),
        ("oci://localhost:5000/m@sha256:" + "0" * 64, "oci://localhost:5000/m@sha256:" + "0" * 64),
        ("oci://localhost/m:v1@sha256:" + "0" * 64, "oci://localhost/m@sha256:" + "0" * 64),
        ("local:///models/a/", "local:///models/a"),
        ("pvc://ns/claim/dir/sub", "pvc://ns/claim/dir/sub"),
        ("pvc://ns:claim/dir", "pvc://ns/claim/dir"),
    ],
)
def test_parsing_the_canonical_form_returns_it_unchanged(written: str, canonical: str) -> None:
    assert str(parse_uri(written)) == canonical
    assert str(parse_uri(canonical)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "", "model", "/etc/passwd", "hf:/org/m", "ftp://h/x", "HF://org/m", "http://host/file",
        "hf://org", "hf://org/", "hf:///m", "hf://a/b/c", "hf://a/..", "hf://../b", "hf://a/b@", "hf://a/b@../x",
        "hf://a/b@-x", "hf://-a/b", "hf://a/b c", "hf://a/b\n",
        "s3://", "s3:///", "s3://b", "s3://bucket@EU", "s3://B/x", "s3://b/x", "s3://bucket/../x", "s3://bucket/a/./b",
        "s3://bucket@EU/x", "s3://bucket@s3.test/x", "s3://bucket@s3.test:x/x", "s3://bucket@s3.test:1@eu/x",
        "s3://bucket@a@b/x", "s3://bucket@@s3.test:1@/x", "s3:///x",
        "https://", "https://host", "https://host/", "https://user:pass@host/f", "https://host/f#x",
        "https://:pass@host/f", "https://@host/f",
        "https://host:99999/f", "https://host:0/f", "https://[::1/f", "https:///f",
        "https://h/f?X-Amz-Signature=abc", "https://h/f?token=abc", "https://h/f?apikey=x", "https://h/f?sig=x",
        "gs://", "gs:///", "gs://b", "gs://b/x", "gs://Bucket/x", "gs://bucket/../x", "gs:///x",
        "az://", "az://account", "az://account/", "az://account/C", "az://ACC/container/x", "az://ac/container/x",
        "az://account/C/x", "az://account/a--b/x", "az://account/ab-/x", "az://account/ab/x",
        f"az://account/{'a-' * 31}ab/x", "az://account/container/../x", "az://account.evil.test/container/x",
        "oci://", "oci://n", "oci://n/ns/b", "oci://n/ns/b//o", "oci://n/ns/b/bucket/x/y", "oci://n/ns/bucket/y", "oci://@ns/x",
        "oci://bucket@/x", "oci://bucket@", "oci://bucket@ns/a/../b", "oci://host/m", "oci://oci.test", "oci://oci.test/",
        "oci://oci.test/M", "oci://oci.test/a//b", "oci://oci.test/a/../b", "oci://oci.test/m:", "oci://oci.test/m@sha256:0",
        "oci://oci.test/m@v1", "oci://oci.test/m:a b", "oci://oci.test:99999/m", "oci://oci.test:0/m", "oci://[::1]/m",
        "oci://user@oci.test/m/..", "oci://oc i.test/m", "oci://oci.test/" + "a" * 256,
        "local://", "local:///", "local://models/a", "local:///a/../b", "local:///a/./b", "local:///a//b", "local:///..",
        "pvc://", "pvc://ns", "pvc://ns/claim", "pvc://ns/claim/", "pvc://ns/claim/..", "pvc://NS/claim/d", "pvc://ns/c/a//b",
    ],
)  # fmt: skip
def test_a_malformed_uri_is_refused_with_the_form_to_write(text: str) -> None:
    with pytest.raises(InvalidURI, match=r"write|put credentials"):
        parse_uri(text)


def test_a_signature_is_not_repeated_in_the_refusal() -> None:
    with pytest.raises(InvalidURI) as refused:
        parse_uri("https://host/f?X-Amz-Signature=5ecret")
    assert "5ecret" not in str(refused.value)


def test_the_claim_uri_of_a_namespaced_model_has_no_namespace_part() -> None:
    assert str(parse_uri("pvc://claim/dir/sub", cluster_scoped=False)) == "pvc://claim/dir/sub"
    assert str(parse_uri("pvc://ns/claim/dir", cluster_scoped=False)) == "pvc://ns/claim/dir"


@pytest.mark.parametrize(
    "rest", ["claim", "claim/", "claim//dir", "claim/../dir", "claim/a/./b", "ns:claim/dir", "/dir"]
)
def test_a_namespaced_models_claim_in_another_form_is_refused_with_the_right_one(rest: str) -> None:
    with pytest.raises(InvalidURI, match=r"write pvc://CLAIM/SUB-PATH, .*in the namespace of the model"):
        parse_uri(f"pvc://{rest}", cluster_scoped=False)


@given(st.text(max_size=60) | st.from_regex(r"(hf|s3|gs|az|oci|https|local|pvc)://.{0,40}", fullmatch=True))
def test_any_text_is_a_canonical_uri_or_refused(text: str) -> None:
    try:
        uri = str(parse_uri(text))
    except InvalidURI:
        return
    assert str(parse_uri(uri)) == uri


@pytest.mark.parametrize(
    ("wanted", "cached", "rest"),
    [
        ("s3://b/m", "s3://b/m", ""),
        ("s3://b/m/sub/x", "s3://b/m", "sub/x"),
        ("s3://b/m2", "s3://b/m", None),
        ("s3://b/m/sub", "s3://b", "m/sub"),
        ("s3://b2/m", "s3://b", None),
        ("s3://b/m", "s3://b/m/sub", None),
        ("gs://b/m/sub", "gs://b/m", "sub"),
        ("gs://b/m2", "gs://b/m", None),
        ("oci://r.io/m:v1", "oci://r.io/m:v1", ""),
        ("oci://r.io/m:v1", "oci://r.io/m:latest", None),
        ("hf://o/m@v1", "hf://o/m@v1", ""),
        ("hf://o/m@v1/x", "hf://o/m@v1", None),
        ("hf://o/m@v2", "hf://o/m@v1", None),
    ],
)
def test_a_cached_uri_covers_another_uri_only_up_to_a_slash(wanted: str, cached: str, rest: str | None) -> None:
    assert sub_path_of(wanted, cached) == rest


def test_an_endpoint_in_a_uri_is_accepted_from_manifests_but_not_from_users() -> None:
    text = "s3://bkt@eu-west-1@minio.example:9000/m"
    assert str(parse_uri(text)) == text
    with pytest.raises(InvalidURI, match="AWS_ENDPOINT_URL"):
        parse_declared(text)
    assert str(parse_declared("s3://bkt@eu-west-1/m")) == "s3://bkt@eu-west-1/m"
