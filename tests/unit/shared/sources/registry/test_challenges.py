import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.sources.registry.challenges import Challenge, parse_challenge


@pytest.mark.parametrize(
    ("header", "challenge"),
    [
        (
            'Bearer realm="https://auth.test/token",service="r.test",scope="repository:a/b:pull"',
            Challenge("bearer", "https://auth.test/token", "r.test"),
        ),
        ("bearer realm=https://auth.test/token, service=r", Challenge("bearer", "https://auth.test/token", "r")),
        ('Basic realm="r, bearer of it"', Challenge("basic", "r, bearer of it")),
        ('Basic realm="r", Bearer realm="https://a.test/t",service="s"', Challenge("bearer", "https://a.test/t", "s")),
        ('Bearer realm="a\\"b"', Challenge("bearer", 'a"b')),
        ("Negotiate", Challenge()),
        ("Basic", Challenge("basic")),
        ("", Challenge()),
    ],
)
def test_a_bearer_challenge_takes_precedence_over_basic(header: str, challenge: Challenge) -> None:
    assert parse_challenge(header) == challenge


@given(st.text(max_size=200))
def test_any_challenge_header_is_parsed(header: str) -> None:
    assert parse_challenge(header).scheme in ("", "basic", "bearer")
