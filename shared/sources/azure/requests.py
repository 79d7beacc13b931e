"""Requests to the blob service of one Azure storage account: their URLs and their authentication."""

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from functools import cached_property
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from shared.errors import AuthDenied
from shared.http.client import HttpClient, Request
from shared.http.origins import endpoint_origin, origin_of
from shared.sources.credential_hints import AZURE_LOGIN
from shared.sources.credential_keys import AZURE_KEYS, AZURE_LOGIN_KEYS
from shared.sources.failures import RequestSubject
from shared.sources.host_grants import HostGrant, grant_for
from shared.sources.port import Credentials
from shared.sources.settings import SourceSettings, default_hosts
from shared.sources.tokens import CachedToken, Token, bearer, request_token

_VERSION = "2021-12-02"
_LOGIN = "https://login.microsoftonline.com"
_SCOPE = "https://storage.azure.com/.default"
_TENANT = re.compile(r"[A-Za-z0-9.-]{1,253}")
_SAS = re.compile(r"[!-\"$-~]+")
# The standard headers that a shared key signs, in this order.
_SIGNED = (
    "Content-Encoding", "Content-Language", "Content-Length", "Content-MD5", "Content-Type", "Date",
    "If-Modified-Since", "If-Match", "If-None-Match", "If-Unmodified-Since", "Range",
)  # fmt: skip


@dataclass(frozen=True)
class AzureRequests:
    """Requests for one account, with `now` in seconds since 1970.

    A shared key takes precedence over a SAS token, and that over a login.
    """

    account: str
    credentials: Credentials
    settings: SourceSettings
    client: HttpClient
    now: Callable[[], float]

    @cached_property
    def base(self) -> str:
        """The URL of the account; at an endpoint that the administrator configured, the account is part of the path."""
        if self.settings.azure_endpoint:
            return f"{self.settings.azure_endpoint}/{self.account}"
        return f"https://{self.account}.blob.core.windows.net"

    @cached_property
    def grant(self) -> HostGrant:
        """What may be sent to the host of the account."""
        return grant_for(
            origin_of(self.base),
            AZURE_KEYS,
            self.credentials,
            defaults=default_hosts("az", self.settings),
            endpoint=endpoint_origin(self.settings.azure_endpoint),
        )

    def build_request(self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Request:
        """Return a signed request; headers added later are not covered. Raises AuthDenied and what a login raises."""
        url = f"{self.base}/{quote(path, safe='/-_.~')}"
        parameters = urlencode({name: value for name, value in query.items() if value}, quote_via=quote)
        all_headers = {**headers, "x-ms-version": _VERSION, "x-ms-date": formatdate(self.now(), usegmt=True)}
        secrets: dict[str, str] = {}
        values = self.grant.values
        if key := values.get("AZURE_STORAGE_KEY") or values.get("AZURE_STORAGE_ACCESS_KEY"):
            full_url = f"{url}?{parameters}" if parameters else url
            signature = sign(string_to_sign(method, full_url, self.account, all_headers), key)
            secrets = {"Authorization": f"SharedKey {self.account}:{signature}"}
        elif sas := values.get("AZURE_STORAGE_SAS_TOKEN", "").lstrip("?"):
            if not _SAS.fullmatch(sas):
                raise AuthDenied("AZURE_STORAGE_SAS_TOKEN is not a URL query; set it to the token alone")
            parameters = f"{parameters}&{sas}" if parameters else sas
        elif self._token:
            secrets = bearer(self._token.get())
        return Request(
            f"{url}?{parameters}" if parameters else url,
            method,
            headers=all_headers,
            secrets=secrets,
            follow_redirects=False,
        )

    @cached_property
    def _token(self) -> CachedToken | None:
        tenant, client_id, secret = (self.grant.values.get(key) for key in AZURE_LOGIN_KEYS)
        if not tenant or not client_id or not secret:
            return None
        if not _TENANT.fullmatch(tenant):
            raise AuthDenied("AZURE_TENANT_ID is neither an ID nor a domain; correct it")
        form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret, "scope": _SCOPE}
        url = f"{_LOGIN}/{tenant}/oauth2/v2.0/token"
        sent = HostGrant(urlsplit(_LOGIN).netloc, {"client": "sent"}, ambient=self.credentials.ambient)
        subject = RequestSubject(f"a token for {client_id}", AZURE_LOGIN, sent)

        def ask() -> Token:
            return request_token(self.client, url, form, subject, self.now())

        return CachedToken(ask)


def string_to_sign(method: str, url: str, account: str, headers: Mapping[str, str]) -> str:
    """Return the text that a shared key signs, for service version 2015-02-21 and later."""
    parts = urlsplit(url)
    by_name = {name.lower(): value for name, value in headers.items()}
    standard = [by_name.get(name.lower(), "") for name in _SIGNED]
    own = [f"{name}:{by_name[name]}" for name in sorted(by_name) if name.startswith("x-ms-")]
    query = sorted((name.lower(), value) for name, value in parse_qsl(parts.query, keep_blank_values=True))
    resource = [f"/{account}{parts.path}", *(f"{name}:{value}" for name, value in query)]
    return "\n".join([method, *standard, *own, *resource])


def sign(text: str, key: str) -> str:
    """Sign a text with the key of an account. Raises AuthDenied if the key is malformed."""
    try:
        secret = base64.b64decode(key.strip(), validate=True)
    except ValueError:
        raise AuthDenied(
            "the Azure storage key is not valid base64; use the key of the account as Azure shows it"
        ) from None
    return base64.b64encode(hmac.new(secret, text.encode(), hashlib.sha256).digest()).decode()
