import pytest

from shared.sources.hosts import grant_for, host_matches
from shared.sources.port import Credentials


@pytest.mark.parametrize(
    ("host", "pattern", "matches"),
    [
        ("hub.test", "hub.test", True),
        ("HUB.test.", "hub.TEST", True),
        ("hub.test", "hub.test:8443", True),
        ("::1", "[::1]:80", True),
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
def test_hosts_are_compared_whole(host: str, pattern: str, matches: bool) -> None:  # noqa: FBT001 - a table
    assert host_matches(host, (pattern,)) is matches


def granted(host: str, hosts: tuple[str, ...], defaults: tuple[str, ...] = (), endpoint_host: str = "") -> str:
    credentials = Credentials({"token": "t", "other": "o"}, hosts)
    grant = grant_for(host, ("token",), credentials, defaults=defaults, endpoint_host=endpoint_host)
    assert set(grant.values) <= {"token"}
    return "sent" if grant.values else "withheld" if grant.withheld else "nothing"


def test_values_go_to_named_hosts_only() -> None:
    assert granted("a.test", ("a.test",)) == "sent"
    assert granted("b.test", ("a.test",)) == "withheld"


def test_named_hosts_replace_the_defaults() -> None:
    assert granted("d.test", (), ("d.test",)) == "sent"
    assert granted("d.test", ("a.test",), ("d.test",)) == "withheld"


def test_a_configured_endpoint_is_trusted() -> None:
    assert granted("e.test", ("a.test",), endpoint_host="e.test") == "sent"
    assert granted("x.test", (), endpoint_host="e.test") == "withheld"


def test_where_there_is_no_value_nothing_is_withheld() -> None:
    assert grant_for("a.test", ("absent",), Credentials({"token": "t"}), defaults=()).withheld is False


def test_no_value_is_shown_by_repr() -> None:
    grant = grant_for("a.test", ("token",), Credentials({"token": "t0p"}, ("a.test",)), defaults=())
    assert "t0p" not in repr(grant)
