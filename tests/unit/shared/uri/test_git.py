"""URIs of Git repositories."""

import pytest

from shared.errors import InvalidURI
from shared.uri.git import GitUri
from shared.uri.model_uri import parse_uri, sub_path_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("git+https://gitlab.com/org/model.git", GitUri("gitlab.com/org/model.git")),
        ("git+https://GitLab.com:8443/a/b/c/", GitUri("gitlab.com:8443/a/b/c")),
        ("git+https://host.example/m?ref=feat/x-1", GitUri("host.example/m", "feat/x-1")),
        ("git+https://host.example/m.git@feat/x-1", GitUri("host.example/m.git", "feat/x-1")),
    ],
)
def test_a_git_uri_is_parsed_into_repository_and_revision(text: str, expected: GitUri) -> None:
    assert parse_uri(text) == expected
    assert parse_uri(str(expected)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "git+https://host.example",
        "git+https://host.example/",
        "git+https://host.example/a/../b",
        "git+https://host.example/a?ref=-x",
        "git+https://host.example/a?ref=a..b",
        "git+https://host.example/a?ref=",
        "git+https://host.example/a@",
        "git+https://host.example/a@b@c",
        "git+https://host.example/a?branch=main",
        "git+https://host.example/a?ref=main&ref=x",
        "git+https://host.example/a%0aHost:x",
        "git+https://host.example:99999/a",
        "git+https:///a",
        "git+http://host.example/a",
    ],
)
def test_a_malformed_git_uri_is_refused(text: str) -> None:
    with pytest.raises(InvalidURI):
        parse_uri(text)


def test_a_password_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidURI) as refusal:
        parse_uri("git+https://user:hunter2@host.example/a")
    assert "hunter2" not in str(refusal.value)


def test_a_branch_is_not_a_prefix_of_a_branch_with_a_longer_name() -> None:
    assert sub_path_of("git+https://h.example/a?ref=feat/x", "git+https://h.example/a?ref=feat") is None
