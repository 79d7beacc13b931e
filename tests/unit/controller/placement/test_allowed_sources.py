import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.placement.allowed_sources import EVERY_SOURCE, PUBLIC_SOURCES, AllowedSources, parse_allowed
from controller.placement.demand_of_kind import base_model_demand
from shared.api.base_model import BaseModel, BaseModelSpec, Storage
from shared.kube.objects import Meta
from shared.uri.model_uri import parse_uri


def allows(pattern: str, uri: str) -> bool:
    return parse_allowed(pattern).allows(parse_uri(uri, cluster_scoped=False))


@pytest.mark.parametrize(
    ("pattern", "allowed", "refused"),
    [
        ("hf://", ["hf://o/m", "hf://o/m@v1"], ["s3://bucket/x", "https://huggingface.co/x"]),
        ("hf://org", ["hf://org/m", "hf://org/other@v1"], ["hf://organs/m", "hf://or/m", "hf://x/org"]),
        ("hf://org/m", ["hf://org/m", "hf://org/m@v1"], ["hf://org/m2", "hf://org/m-x"]),
        ("hf://org/m@v1", ["hf://org/m@v1"], ["hf://org/m", "hf://org/m@v10"]),
        ("s3://bucket", ["s3://bucket/x", "s3://bucket@eu-west-1/x"], ["s3://bucket2/x", "s3://other/bucket/x"]),
        ("s3://bucket@eu-west-1", ["s3://bucket@eu-west-1/x"], ["s3://bucket/x", "s3://bucket@eu-west-10/x"]),
        ("s3://bucket/team/", ["s3://bucket/team", "s3://bucket/team/m"], ["s3://bucket/team2/m", "s3://bucket/x/team"]),
        ("gs://bucket/team", ["gs://bucket/team/m"], ["gs://bucket/teams", "s3://bucket/team/m"]),
        ("oci://r.example.org/a", ["oci://r.example.org/a/m:1"], ["oci://r.example.org/ab:1", "oci://r.example.org:5000/a/m"]),
        ("oci://r.example.org/a/m", ["oci://r.example.org/a/m:1"], ["oci://r.example.org/a/m2:1"]),
        ("oci://n", ["oci://n/ns/b/bucket/o/m", "oci://bucket@ns/m"], ["oci://n.example.org/m:1"]),
        ("https://", ["https://h/f", "https://h:8443/f"], ["hf://o/m"]),
        ("https://h.test", ["https://h.test/f", "https://H.Test:443/f"], ["https://h.test:8443/f", "https://xh.test/f"]),
        ("https://h.test:8443", ["https://h.test:8443/f"], ["https://h.test/f"]),
        (
            "https://*.h.test",
            ["https://a.h.test/f", "https://a.b.h.test/f"],
            ["https://h.test/f", "https://badh.test/f", "https://a.h.test.evil.test/f"],
        ),
        (
            "https://s3.*.h.test",
            ["https://s3.a.h.test/f"],
            ["https://s3.h.test/f", "https://s3.a.b.h.test/f", "https://x.s3.a.h.test/f"],
        ),
        (
            "https://h.test/pub",
            ["https://h.test/pub/f", "https://h.test/pub", "https://h.test/pub/a%20b?x=1"],
            [
                "https://h.test/public/f",
                "https://h.test/pub/../private/f",
                "https://h.test/pub/%2e%2e/private/f",
                "https://h.test/pub/..%2fprivate/f",
                "https://h.test/pub/..;x/private/f",
                "https://h.test/pub\\..\\private/f",
                "https://h.test/x/pub/f",
            ],
        ),
    ],
)  # fmt: skip
def test_patterns_match_only_at_boundaries_of_hosts_and_paths(
    pattern: str, allowed: list[str], refused: list[str]
) -> None:
    assert {uri: allows(pattern, uri) for uri in allowed} == dict.fromkeys(allowed, True)
    assert {uri: allows(pattern, uri) for uri in refused} == dict.fromkeys(refused, False)


def test_by_default_the_public_hubs_and_clouds_are_allowed_and_other_hosts_are_not() -> None:
    for uri in ("hf://o/m", "s3://bucket/x", "gs://bucket/x", "az://account/container/x", "oci://n/ns/b/bucket/o/x"):
        assert PUBLIC_SOURCES.allows(parse_uri(uri))
    assert PUBLIC_SOURCES.allows(parse_uri("https://bucket.s3.eu-west-1.amazonaws.com/x"))
    assert PUBLIC_SOURCES.allows(parse_uri("https://objectstorage.eu-frankfurt-1.oraclecloud.com/n/ns/b/bucket/o/x"))
    for host in ("abc.execute-api.eu-west-1.amazonaws.com", "x.eu-frankfurt-1.functions.oci.oraclecloud.com"):
        assert not PUBLIC_SOURCES.allows(parse_uri(f"https://{host}/x"))
    for uri in ("https://models.corp.test/x", "oci://registry.corp.test/m:1", "local:///etc", "https://10.0.0.7/x"):
        assert not PUBLIC_SOURCES.allows(parse_uri(uri))


def test_a_claim_in_the_models_own_namespace_is_always_allowed() -> None:
    assert AllowedSources(()).allows(parse_uri("pvc://claim/dir", cluster_scoped=False))


def test_the_refusal_names_the_allowed_sources_and_who_can_help() -> None:
    message = parse_allowed("hf://org, https://*.h.test").refusal_of(parse_uri("https://x.test/f"))
    for part in ("https://x.test/f", "hf://org", "https://*.h.test", "pvc://", "allowedSources", "ClusterBaseModel"):
        assert part in message
    assert parse_allowed("*").refusal_of(parse_uri("https://x.test/f")) == ""
    assert f"{len(PUBLIC_SOURCES.patterns) - 12} more" in PUBLIC_SOURCES.refusal_of(parse_uri("https://x.test/f"))


@pytest.mark.parametrize(
    "wrong", ["hf:/org", "org/m", "hf://org/*", "https://a.b*.test", "https://a.*", "https://*.*", "https://*",
              "https://*.", "https://u@h", "https://h:x",
              "https:///x", "hf://o m", "s3://b?x", "https://h/%2e"]
)  # fmt: skip
def test_an_invalid_pattern_is_refused_at_start(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"not a valid source pattern|[Pp]ort"):
        parse_allowed(f"hf://,{wrong}")


def test_an_empty_list_allows_only_claims() -> None:
    assert parse_allowed("") == AllowedSources(())
    assert not parse_allowed("").allows(parse_uri("hf://o/m"))


@given(
    st.sampled_from(["hf://org/m", "s3://bucket/a/b", "https://h.test/a/b", "oci://r.test/a/b:1"]),
    st.text("abm1/:*.", max_size=6),
)
def test_a_longer_pattern_allows_nothing_that_a_shorter_one_refuses(uri: str, more: str) -> None:
    try:
        longer = parse_allowed(f"{uri.rpartition('/')[0]}/{more}")
    except ValueError:
        return
    if len(longer.patterns) == 1 and longer.allows(parse_uri(uri)):
        assert allows(uri.rpartition("/")[0], uri)


def model(namespace: str, uri: str) -> BaseModel:
    meta = Meta(name="m", namespace=namespace, uid="u", creation_timestamp="2026-01-01T00:00:00Z")
    return BaseModel(metadata=meta, spec=BaseModelSpec(storage=Storage(storage_uri=uri)))


def test_a_model_from_a_refused_source_is_not_placed_and_has_a_reason() -> None:
    none = AllowedSources(())
    refused = base_model_demand("BaseModel", model("team", "hf://o/m"), none)
    assert (refused.placeable, refused.invalid, "hf://o/m@main" in refused.refused) == (False, "", True)
    assert base_model_demand("BaseModel", model("team", "hf://o/m"), EVERY_SOURCE).placeable
    assert base_model_demand("BaseModel", model("team", "pvc://claim/x"), none).refused == ""
    assert base_model_demand("ClusterBaseModel", model("", "hf://o/m"), none).refused == ""
