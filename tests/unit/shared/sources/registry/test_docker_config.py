import base64
import json

import pytest

from shared.errors import AuthDenied
from shared.sources.registry.docker_config import account_for

AUTH = base64.b64encode(b"user:pass:word").decode()


def config(**auths: dict[str, str]) -> dict[str, str]:
    return {".dockerconfigjson": json.dumps({"auths": auths, "credsStore": "desktop"})}


@pytest.mark.parametrize(
    ("key", "registry", "user"),
    [
        ("oci.test", "oci.test", "user"),
        ("https://oci.test", "oci.test", "user"),
        ("https://OCI.test/v2/", "oci.test", "user"),
        ("r.test:5000", "r.test:5000", "user"),
        ("https://index.docker.io/v1/", "docker.io", "user"),
        ("docker.io", "docker.io", "user"),
        ("oci.test", "evil.test", ""),
        ("oci.test", "oci.test.evil.test", ""),
        ("oci.test", "oci.test:8443", ""),
        ("r.test", "sub.r.test", ""),
        ("evil.test/oci.test", "oci.test", ""),
    ],
)
def test_an_account_is_used_only_for_its_own_registry(key: str, registry: str, user: str) -> None:
    assert account_for(registry, config(**{key: {"auth": AUTH}})).user == user


def test_an_entry_may_hold_basic_credentials_or_an_identity_token() -> None:
    account = account_for("r.test", config(**{"r.test": {"auth": AUTH}}))
    assert account.basic == {"Authorization": f"Basic {AUTH}"}
    assert account_for("r.test", config(**{"r.test": {"username": "user", "password": "pass:word"}})) == account
    token = account_for("r.test", config(**{"r.test": {"auth": AUTH, "identitytoken": "t"}}))
    assert (token.identity_token, token.basic, bool(token)) == ("t", {}, True)
    assert not account_for("r.test", config(**{"r.test": {}}))
    assert not account_for("r.test", {})
    assert "pass" not in repr(account)


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", '{"auths": []}', '{"auths": {"r.test": {"auth": "%%"}}}', '{"auths": {"r.test": {"auth": 5}}}',
        '{"auths": {"r.test": {"auth": "\u00e9"}}}',
    ],
)  # fmt: skip
def test_a_malformed_docker_config_is_refused(text: str) -> None:
    with pytest.raises(AuthDenied, match=r"\.dockerconfigjson"):
        account_for("r.test", {".dockerconfigjson": text})
