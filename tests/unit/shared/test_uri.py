import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import InvalidURI
from shared.uri import parse_uri, sub_path_of


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("hf://org/model", "hf://org/model@main"),
        ("hf://org/model/", "hf://org/model@main"),
        ("hf://org/model@v1.0", "hf://org/model@v1.0"),
        ("hf://org/model:v1.0", "hf://org/model@v1.0"),
        ("hf://org/model@refs/pr/3", "hf://org/model@refs/pr/3"),
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("s3://bucket//a/b", "s3://bucket/a/b"),
        ("s3://bucket@eu-west-1/a", "s3://bucket@eu-west-1/a"),
        ("https://host/a/model.gguf", "https://host/a/model.gguf"),
        ("https://host:8443/a?version=3", "https://host:8443/a?version=3"),
        ("pvc://ns/claim/dir/sub", "pvc://ns/claim/dir/sub"),
        ("pvc://ns:claim/dir", "pvc://ns/claim/dir"),
    ],
)
def test_the_canonical_form_is_a_fixed_point(written: str, canonical: str) -> None:
    assert str(parse_uri(written)) == canonical
    assert str(parse_uri(canonical)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "", "model", "/etc/passwd", "hf:/org/m", "ftp://h/x", "gs://b/x", "HF://org/m", "http://host/file",
        "hf://org", "hf://org/", "hf:///m", "hf://a/b/c", "hf://a/..", "hf://../b", "hf://a/b@", "hf://a/b@../x",
        "hf://a/b@-x", "hf://-a/b", "hf://a/b c", "hf://a/b\n",
        "s3://", "s3://bucket", "s3://bucket/", "s3://B/x", "s3://b/x", "s3://bucket/../x", "s3://bucket/a/./b",
        "s3://bucket@EU/x", "s3:///x",
        "https://", "https://host", "https://host/", "https://user:pass@host/f", "https://host/f#x",
        "https://host:99999/f", "https://host:0/f", "https://[::1/f", "https:///f",
        "https://h/f?X-Amz-Signature=abc", "https://h/f?token=abc", "https://h/f?apikey=x", "https://h/f?sig=x",
        "pvc://", "pvc://ns", "pvc://ns/claim", "pvc://ns/claim/", "pvc://ns/claim/..", "pvc://NS/claim/d", "pvc://ns/c/a//b",
    ],
)  # fmt: skip
def test_what_is_none_is_refused_with_the_form_to_write(text: str) -> None:
    with pytest.raises(InvalidURI, match=r"write|put credentials"):
        parse_uri(text)


def test_a_signature_is_not_repeated_in_the_refusal() -> None:
    with pytest.raises(InvalidURI) as refused:
        parse_uri("https://host/f?X-Amz-Signature=5ecret")
    assert "5ecret" not in str(refused.value)


def test_a_namespaced_models_claim_is_its_own_namespaces() -> None:
    assert str(parse_uri("pvc://claim/dir/sub", cluster_scoped=False)) == "pvc://claim/dir/sub"
    with pytest.raises(InvalidURI, match="pvc://CLAIM/SUB-PATH"):
        parse_uri("pvc://claim", cluster_scoped=False)


@given(st.text(max_size=60) | st.from_regex(r"(hf|s3|https|pvc)://.{0,40}", fullmatch=True))
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
        ("s3://b/m", "s3://b/m/sub", None),
        ("hf://o/m@v1", "hf://o/m@v1", ""),
        ("hf://o/m@v1/x", "hf://o/m@v1", None),
        ("hf://o/m@v2", "hf://o/m@v1", None),
    ],
)
def test_a_prefix_ends_at_a_slash(wanted: str, cached: str, rest: str | None) -> None:
    assert sub_path_of(wanted, cached) == rest
