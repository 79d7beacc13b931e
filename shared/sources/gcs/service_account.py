"""Google access tokens for a service account with a JSON key (RFC 7523)."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from shared.errors import AddressRefused, AuthDenied, InvalidURI
from shared.http.client import HttpClient
from shared.http.origins import origin_of
from shared.sources.credential_hints import GOOGLE
from shared.sources.credential_keys import GOOGLE_KEY
from shared.sources.failures import RequestSubject
from shared.sources.host_grants import HostGrant, host_matches
from shared.sources.port import Credentials
from shared.sources.rsa import InvalidKey, RsaKey, parse_key
from shared.sources.tokens import Token, request_token, withheld_token

_SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"
_GOOGLES_OWN = ("oauth2.googleapis.com", "accounts.google.com", "www.googleapis.com")
_TOKEN_URI = "https://oauth2.googleapis.com/token"  # noqa: S105 - an address
_GOOD_S = 3600
_LONGEST_JSON = 64 * 1024


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """A service account, its private key, and the service that issues its tokens."""

    email: str
    key_id: str
    token_uri: str
    key: RsaKey = field(repr=False)

    def assertion(self, now: float) -> str:
        """Return the signed JWT that is exchanged for a token; `now` in seconds since 1970."""
        issued = int(now)
        head = {"alg": "RS256", "typ": "JWT", "kid": self.key_id}
        claims = {
            "iss": self.email, "scope": _SCOPE, "aud": self.token_uri, "iat": issued, "exp": issued + _GOOD_S,
        }  # fmt: skip
        text = f"{_base64url(json.dumps(head).encode())}.{_base64url(json.dumps(claims).encode())}"
        return f"{text}.{_base64url(self.key.sign(text.encode()))}"


def parse_account(text: str) -> ServiceAccount:
    """Parse a JSON key file. Raises AuthDenied with a message that reveals nothing of the content."""
    try:
        document = json.loads(text[:_LONGEST_JSON])
        fields = ("type", "client_email", "private_key", "private_key_id")
        kind, email, pem, key_id = (document.get(name, "") for name in fields)
        token_uri = document.get("token_uri") or _TOKEN_URI
    except (ValueError, AttributeError, RecursionError):
        raise AuthDenied(f"{GOOGLE_KEY} is not the JSON of a service account key; use the unchanged key file") from None
    if kind != "service_account" or not all(isinstance(v, str) and v for v in (email, pem, token_uri)):
        raise AuthDenied(
            f"{GOOGLE_KEY} is not a service account key with type, client_email and private_key; create one"
        )
    try:
        return ServiceAccount(email, str(key_id), token_uri, parse_key(pem))
    except InvalidKey as error:
        raise AuthDenied(f"{GOOGLE_KEY}: {error}; create a new key for the service account") from None


def check_token_uri(url: str, credentials: Credentials, endpoint: str) -> None:
    """Raise AuthDenied unless a signed assertion may go to this URL.

    It may go to the endpoint that the administrator configured and, over https only, to Google's own hosts and to those
    that the credentials name.
    """
    try:
        origin, configured = origin_of(url), origin_of(endpoint) if endpoint else None
    except (InvalidURI, AddressRefused) as error:
        raise AuthDenied(f"{GOOGLE_KEY} has a token_uri that is not a valid http URL; correct it") from error
    if urlsplit(url).username or (origin != configured and origin.scheme != "https"):
        raise AuthDenied(f"{GOOGLE_KEY} has a token_uri with a user or without https; correct it")
    if origin != configured and not host_matches(origin.host, (*_GOOGLES_OWN, *credentials.hosts), origin.port):
        grant = HostGrant(origin.host, withheld=True, ambient=credentials.ambient, place=origin.netloc)
        raise withheld_token("Google Cloud Storage", GOOGLE, grant)


def ask_google(client: HttpClient, account: ServiceAccount, now: Callable[[], float], *, ambient: bool) -> Token:
    """Exchange a signed assertion for a token. Raises AuthDenied, RateLimited, Unreachable.

    `ambient`: as in HostGrant.
    """
    host = urlsplit(account.token_uri).hostname or ""
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": account.assertion(now())}
    subject = RequestSubject(
        f"a token for {account.email}", GOOGLE, HostGrant(host, {GOOGLE_KEY: "sent"}, ambient=ambient)
    )
    return request_token(client, account.token_uri, form, subject, now())


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
