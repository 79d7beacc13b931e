"""Which keys of a Secret belong to which kind of source."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from shared.http.origins import origin_of
from shared.uri.artifact import ArtifactUri
from shared.uri.model_uri import HttpsUri, ModelUri, PvcUri

DOCKER_CONFIG_KEYS = (".dockerconfigjson", "config.json")
GOOGLE_KEY = "GOOGLE_APPLICATION_CREDENTIALS"
AZURE_LOGIN_KEYS = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET")
OCI_KEYS = ("OCI_CLI_TENANCY", "OCI_CLI_USER", "OCI_CLI_FINGERPRINT", "OCI_CLI_KEY_CONTENT")
AWS_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
ENDPOINT_KEY = "AWS_ENDPOINT_URL"
TOKEN = "token"  # noqa: S105 - the name of a key
BASIC_KEYS = ("username", "password")  # as in a Secret of type kubernetes.io/basic-auth
_WORD = re.compile("[^a-z0-9]")


@dataclass(frozen=True, slots=True)
class SchemeKeys:
    """The keys of one kind of source.

    Args:
        key_sets: Sets of keys; each set is enough to authenticate.
        optional: Keys that may accompany a set.
        location_keys: Keys that are not secret but locate the source; they may stand alone.
        accepts_token: Whether a Secret may keep the token under another name.
    """

    key_sets: tuple[tuple[str, ...], ...] = ()
    optional: tuple[str, ...] = ()
    location_keys: tuple[str, ...] = ()
    accepts_token: bool = False

    @property
    def secrets(self) -> tuple[str, ...]:
        """All keys with secret values, in order of precedence."""
        return (*dict.fromkeys(key for keys in self.key_sets for key in keys), *self.optional)

    def missing(self, values: Mapping[str, str]) -> tuple[str, ...]:
        """Return the keys that are missing to complete a set; none if no set was begun."""
        if any(all(values.get(key) for key in keys) for keys in self.key_sets):
            return ()
        begun = next((keys for keys in self.key_sets if any(values.get(key) for key in keys)), None)
        if begun is None and any(values.get(key) for key in self.optional):
            begun = self.key_sets[0]
        return tuple(key for key in begun or () if not values.get(key))


HUB_KEYS = SchemeKeys((("HF_TOKEN",), (TOKEN,)), accepts_token=True)
S3_KEYS = SchemeKeys((AWS_KEYS,), ("AWS_SESSION_TOKEN",), ("AWS_REGION", ENDPOINT_KEY))
GOOGLE_KEYS = SchemeKeys(((GOOGLE_KEY,),))
AZURE_KEYS = SchemeKeys(
    (("AZURE_STORAGE_KEY",), ("AZURE_STORAGE_ACCESS_KEY",), ("AZURE_STORAGE_SAS_TOKEN",), AZURE_LOGIN_KEYS)
)
REGISTRY_KEYS = SchemeKeys(tuple((key,) for key in DOCKER_CONFIG_KEYS))
OCI_OBJECT_KEYS = SchemeKeys((OCI_KEYS,), location_keys=("OCI_CLI_REGION",))
HTTPS_KEYS = SchemeKeys(((TOKEN,),), accepts_token=True)
GIT_KEYS = SchemeKeys(((TOKEN,), BASIC_KEYS), accepts_token=True)
NO_KEYS = SchemeKeys()

_BY_SCHEME: Mapping[str, SchemeKeys] = {
    "hf": HUB_KEYS,
    "s3": S3_KEYS,
    "gs": GOOGLE_KEYS,
    "az": AZURE_KEYS,
    "oci": OCI_OBJECT_KEYS,
    "https": HTTPS_KEYS,
    "git+https": GIT_KEYS,
}
_ALL = (*_BY_SCHEME.values(), REGISTRY_KEYS)


def keys_of(uri: ModelUri, hub: str) -> SchemeKeys:
    """Return the keys that the source of a URI takes; none for a plugin, whose keys are unknown.

    `hub` is the endpoint of the hub, whose token may also go with its `https://` URLs.
    """
    match uri:
        case ArtifactUri():
            return REGISTRY_KEYS
        case HttpsUri(url) if origin_of(url) == origin_of(hub):
            return HUB_KEYS
        case _:
            return _BY_SCHEME.get(str(uri).partition("://")[0], NO_KEYS)


def plugin_values(values: Mapping[str, str]) -> dict[str, str]:
    """Return the values that no built-in source claims, and those under general names: what a plugin may receive."""
    claimed = {key for keys in _ALL for key in (*keys.secrets, *keys.location_keys)} - {TOKEN, *BASIC_KEYS}
    return {key: value for key, value in values.items() if key not in claimed}


def why_no_token(keys: SchemeKeys, key: str) -> str:
    """Return why a model may not use this key of its Secret as a token, or "" if it may.

    The name must say that it is a token, and must not look like a key or a key prefix (AWS_..., AZURE_...) of another
    kind of source: its value would go to a host that it is not meant for.
    """
    if not keys.accepts_token:
        return "only hf://, https:// and git+https:// accept a token"
    if key in keys.secrets:
        return ""
    word, families = _word(key), {_prefix(other) for kind in _ALL for other in kind.secrets if "_" in other}
    others = families - {_prefix(own) for own in keys.secrets}
    if TOKEN not in word or any(word.startswith(family) for family in others):
        return "its name must contain `token`, and must not be a key of another kind of source"
    return ""


def why_never_a_token(uri: ModelUri, key: str) -> str:
    """Return why this key can never be the token of the URI, whatever the hub is, or "" if it can.

    Nothing is fetched for a claim, so any name is accepted there.
    """
    if isinstance(uri, PvcUri):
        return ""
    possible = (HUB_KEYS, HTTPS_KEYS) if isinstance(uri, HttpsUri) else (keys_of(uri, ""),)
    return min((why_no_token(keys, key) for keys in possible), key=bool)


def _prefix(key: str) -> str:
    return _word(key.partition("_")[0])


def _word(key: str) -> str:
    return _WORD.sub("", key.lower())
