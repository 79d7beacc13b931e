import pytest

from shared.errors import AuthDenied
from shared.http.origins import endpoint_origin, origin_of
from shared.sources.cloud_hosts import AWS_HOSTS, ORACLE_HOSTS
from shared.sources.credential_keys import AZURE_KEYS, HTTPS_KEYS, OCI_OBJECT_KEYS, S3_KEYS, SchemeKeys
from shared.sources.host_grants import grant_for, host_matches
from shared.sources.port import Credentials


@pytest.mark.parametrize(
    ("host", "pattern", "matches"),
    [
        ("hub.test", "hub.test", True),
        ("HUB.test.", "hub.TEST", True),
        ("::1", "[::1]", True),
        ("::1", "::1", True),
        ("hub.test.evil.test", "hub.test", False),
        ("xhub.test", "hub.test", False),
        ("a.hub.test", "hub.test", False),
        ("s3.eu.amazonaws.com", "*.amazonaws.com", True),
        ("amazonaws.com", "*.amazonaws.com", False),
        (".amazonaws.com", "*.amazonaws.com", False),
        ("evilamazonaws.com", "*.amazonaws.com", False),
        ("anything", "*", False),
        ("anything", "", False),
    ],
)
def test_a_host_pattern_matches_the_whole_host(host: str, pattern: str, matches: bool) -> None:  # noqa: FBT001 - a table
    assert host_matches(host, (pattern,)) is matches


@pytest.mark.parametrize(
    ("host", "port", "pattern", "matches"),
    [
        ("hub.test", 443, "hub.test", True),
        ("hub.test", 8443, "hub.test", False),
        ("hub.test", 8443, "hub.test:8443", True),
        ("hub.test", 443, "hub.test:8443", False),
        ("a.hub.test", 8443, "*.hub.test:8443", True),
        ("a.hub.test", 8443, "*.hub.test", False),
        ("::1", 8443, "[::1]:8443", True),
        ("::1", 443, "[::1]:8443", False),
        ("hub.test", 443, "hub.test:", False),
        ("hub.test", 443, "hub.test:\N{SUPERSCRIPT TWO}", False),
        ("s3.eu-west-1.example.org", 443, "s3.*.example.org", True),
        ("s3.example.org", 443, "s3.*.example.org", False),
        ("s3.a.b.example.org", 443, "s3.*.example.org", False),
        ("x.y.s3.eu.example.org", 443, "*.s3.*.example.org", True),
        ("s3..example.org", 443, "s3.*.example.org", False),
        ("anything", 443, "*.*", False),
        ("any.thing", 443, "any.*", False),
    ],
)
def test_a_host_pattern_without_a_port_matches_only_port_443(host: str, port: int, pattern: str, matches: bool) -> None:  # noqa: FBT001 - a table
    assert host_matches(host, (pattern,), port) is matches


@pytest.mark.parametrize(
    "host",
    [
        "s3.amazonaws.com",
        "s3.eu-west-1.amazonaws.com",
        "bucket.s3.eu-west-1.amazonaws.com",
        "a.bucket.with.dots.s3.eu-west-1.amazonaws.com",
        "bucket.s3.amazonaws.com",
        "s3.dualstack.eu-west-1.amazonaws.com",
        "bucket.s3.dualstack.eu-west-1.amazonaws.com",
        "s3-fips.us-gov-west-1.amazonaws.com",
        "bucket.s3-fips.dualstack.us-east-1.amazonaws.com",
        "bucket.s3-accelerate.amazonaws.com",
        "bucket.s3-accelerate.dualstack.amazonaws.com",
        "point-123456789012.s3-accesspoint.eu-west-1.amazonaws.com",
        "alias.mrap.accesspoint.s3-global.amazonaws.com",
        "s3.cn-north-1.amazonaws.com.cn",
        "bucket.s3.cn-northwest-1.amazonaws.com.cn",
    ],
)
def test_aws_s3_hosts_match_the_default_pattern(host: str) -> None:
    assert host_matches(host, AWS_HOSTS)


@pytest.mark.parametrize(
    "host",
    [
        "abc123.execute-api.eu-west-1.amazonaws.com",
        "s3.execute-api.eu-west-1.amazonaws.com",
        "abc.lambda-url.eu-west-1.amazonaws.com",
        "ec2-1-2-3-4.eu-west-1.compute.amazonaws.com",
        "s3.eu-west-1.elb.amazonaws.com",
        "s3-bucket.eu-west-1.elasticbeanstalk.amazonaws.com",
        "sts.amazonaws.com",
        "amazonaws.com",
        "s3.eu-west-1.amazonaws.com.evil.test",
        "s3.eu-west-1.evilamazonaws.com",
        "x.s3-object-lambda.eu-west-1.amazonaws.com",
    ],
)
def test_other_aws_hosts_do_not_match_the_s3_pattern(host: str) -> None:
    assert not host_matches(host, AWS_HOSTS)


def test_a_port_of_thousands_of_digits_does_not_match() -> None:
    assert not host_matches("a.b", ["a.b:" + "9" * 5000])


def test_other_oracle_hosts_do_not_match_the_object_storage_pattern() -> None:
    assert host_matches("objectstorage.eu-frankfurt-1.oraclecloud.com", ORACLE_HOSTS)
    for host in ("x.eu-frankfurt-1.functions.oci.oraclecloud.com", "iaas.eu-frankfurt-1.oraclecloud.com"):
        assert not host_matches(host, ORACLE_HOSTS)


def granted(url: str, hosts: tuple[str, ...], defaults: tuple[str, ...] = (), endpoint: str = "") -> str:
    credentials = Credentials({"token": "t", "other": "o"}, hosts)
    grant = grant_for(origin_of(url), HTTPS_KEYS, credentials, defaults=defaults, endpoint=endpoint_origin(endpoint))
    assert set(grant.values) <= {"token"}
    return "sent" if grant.values else "withheld" if grant.withheld else "nothing"


def test_credentials_are_sent_only_to_named_hosts() -> None:
    assert granted("https://a.test", ("a.test",)) == "sent"
    assert granted("https://b.test", ("a.test",)) == "withheld"


def test_credentials_are_sent_only_over_tls_and_to_the_named_port() -> None:
    assert granted("https://a.test:8443", ("a.test",)) == "withheld"
    assert granted("https://a.test:8443", ("a.test:8443",)) == "sent"
    assert granted("http://a.test:443", ("a.test",)) == "withheld"
    assert granted("http://a.test:8080", ("a.test:8080",)) == "withheld"


def test_named_hosts_replace_the_defaults() -> None:
    assert granted("https://d.test", (), ("d.test",)) == "sent"
    assert granted("https://d.test", ("a.test",), ("d.test",)) == "withheld"


def test_a_configured_endpoint_is_trusted_as_it_is_written() -> None:
    assert granted("http://e.test:9000", ("a.test",), endpoint="http://e.test:9000") == "sent"
    for other in ("https://e.test:9000", "http://e.test:9001", "https://e.test", "https://x.test"):
        assert granted(other, (), endpoint="http://e.test:9000") == "withheld"


def test_nothing_is_withheld_if_the_secret_lacks_the_value() -> None:
    origin = origin_of("https://a.test")
    assert grant_for(origin, HTTPS_KEYS, Credentials({"HF_TOKEN": "t"}), defaults=()).withheld is False


@pytest.mark.parametrize(
    ("keys", "there", "lacks"),
    [
        (S3_KEYS, ("AWS_ACCESS_KEY_ID",), "AWS_SECRET_ACCESS_KEY"),
        (S3_KEYS, ("AWS_SECRET_ACCESS_KEY",), "AWS_ACCESS_KEY_ID"),
        (S3_KEYS, ("AWS_SESSION_TOKEN",), "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        (AZURE_KEYS, ("AZURE_CLIENT_ID", "AZURE_TENANT_ID"), "AZURE_CLIENT_SECRET"),
        (OCI_OBJECT_KEYS, ("OCI_CLI_USER", "OCI_CLI_TENANCY", "OCI_CLI_FINGERPRINT"), "OCI_CLI_KEY_CONTENT"),
    ],
)
def test_incomplete_keys_are_refused_and_not_treated_as_anonymous(
    keys: SchemeKeys, there: tuple[str, ...], lacks: str
) -> None:
    half = Credentials(dict.fromkeys(there, "s3cret"))
    with pytest.raises(AuthDenied, match=rf"but not {lacks}, so no credentials are sent; add {lacks}$") as refused:
        grant_for(origin_of("https://s3.test"), keys, half, defaults=("s3.test",))
    assert "s3cret" not in str(refused.value)


def test_no_value_is_shown_by_repr() -> None:
    grant = grant_for(origin_of("https://a.test"), HTTPS_KEYS, Credentials({"token": "t0p"}, ("a.test",)), defaults=())
    assert grant.values
    assert "t0p" not in repr(grant)
