"""Finds the account for a registry in a docker config."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from shared.decode_errors import DECODE_ERRORS
from shared.errors import AuthDenied
from shared.sources.credential_keys import DOCKER_CONFIG_KEYS

_DOCKER_HUB = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})
_LONGEST = 1024 * 1024
_NAMES = " or ".join(DOCKER_CONFIG_KEYS)


@dataclass(frozen=True, slots=True)
class Account:
    """User and password, or an identity token instead; empty if the config has no account for the registry."""

    user: str = ""
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)

    @property
    def basic(self) -> dict[str, str]:
        """The header with user and password; empty without a user, or if a token replaces them."""
        if not self.user or self.identity_token:
            return {}
        return {"Authorization": f"Basic {base64.b64encode(f'{self.user}:{self.password}'.encode()).decode()}"}

    def __bool__(self) -> bool:
        return bool(self.user or self.identity_token)


class _Entry(msgspec.Struct):
    auth: str = ""
    username: str = ""
    password: str = ""
    identitytoken: str = ""


class _Config(msgspec.Struct):
    auths: dict[str, _Entry] = {}


def account_for(registry: str, values: Mapping[str, str]) -> Account:
    """Return the account that the config binds to HOST[:PORT]. Raises AuthDenied.

    Credential helpers named in the config are never run.
    """
    text = next((values[key] for key in DOCKER_CONFIG_KEYS if values.get(key)), "")
    if not text:
        return Account()
    try:
        config = msgspec.json.decode(text[:_LONGEST], type=_Config)
    except DECODE_ERRORS:
        raise AuthDenied(
            f"the docker config ({_NAMES}) is not valid JSON; create it again with `docker login`"
        ) from None
    names = _DOCKER_HUB if registry in _DOCKER_HUB else {registry}
    entry = next((entry for key, entry in config.auths.items() if _host_of(key) in names), None)
    return _account_of(entry) if entry else Account()


def _host_of(key: str) -> str:
    """Return the registry that a key of `auths` names: index.docker.io for `https://index.docker.io/v1/`."""
    return key.rpartition("://")[2].partition("/")[0].lower()


def _account_of(entry: _Entry) -> Account:
    user, password = entry.username, entry.password
    if entry.auth:
        try:
            user, _, password = base64.b64decode(entry.auth, validate=True).decode().partition(":")
        except ValueError:
            raise AuthDenied(
                f"an entry of the docker config ({_NAMES}) does not contain a user and password; create it again with "
                "`docker login`"
            ) from None
    return Account(user, password.rstrip("\0"), entry.identitytoken)
