"""OAuth access tokens, requested with an account's key and cached until shortly before they expire."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlencode

from shared.errors import AuthDenied, Unreachable
from shared.http.client import HttpClient, Request
from shared.http.origins import public
from shared.sources.credential_hints import CredentialHint
from shared.sources.failures import RequestSubject, denied, failure_of
from shared.sources.host_grants import HostGrant

_LONGEST_ANSWER_BYTES = 64 * 1024
_RENEW_EARLY_S = 120.0
_SHORTEST_S, _LONGEST_S = 60.0, 3600.0


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token and its lifetime in seconds."""

    value: str = field(repr=False)
    lifetime_s: float = 300.0


class CachedToken:
    """One token shared by many threads and renewed when it expires; `clock` in monotonic seconds."""

    def __init__(self, ask: Callable[[], Token], clock: Callable[[], float] = time.monotonic) -> None:
        self._request, self._clock = ask, clock
        self._value, self._until = "", 0.0
        self._lock = threading.Lock()

    def get(self) -> str:
        """Return a valid token. Raises what the request for one raises."""
        with self._lock:
            if not self._value or self._clock() >= self._until:
                token = self._request()
                self._value, self._until = (
                    token.value,
                    self._clock() + max(token.lifetime_s - _RENEW_EARLY_S, _SHORTEST_S),
                )
            return self._value


def request_token(client: HttpClient, url: str, form: Mapping[str, str], subject: RequestSubject, now: float) -> Token:
    """Request a token from an OAuth 2 service; raises AuthDenied, RateLimited, Unreachable."""
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    response = client.send(Request(url, "POST", headers=headers, body=urlencode(form).encode()))
    if response.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        detail = _error_of(response.read_small())
        response.close()
        raise denied(subject, detail or f"status {response.status}")
    if response.status != HTTPStatus.OK:
        response.close()
        raise failure_of(response.status, response.headers, subject, now)
    return read_token(response.read_all(_LONGEST_ANSWER_BYTES), url)


def read_token(body: bytes, url: str) -> Token:
    """Return the token in a response; raises Unreachable if there is none."""
    try:
        answer = json.loads(body)
        value = answer.get("access_token") or answer.get("token")
        lifetime_s = float(answer.get("expires_in") or _SHORTEST_S)
    except (ValueError, AttributeError, TypeError, OverflowError, RecursionError):
        value, lifetime_s = None, 0.0
    if not isinstance(value, str) or not value or not value.isascii() or not value.isprintable() or " " in value:
        raise Unreachable(f"{public(url)} sent a response without a token; Larder will retry")
    return Token(value, min(max(lifetime_s, 0.0), _LONGEST_S))


def bearer(token: str) -> dict[str, str]:
    """Return the header that carries a token; empty without a token."""
    return {"Authorization": f"Bearer {token}"} if token else {}


def _error_of(body: bytes) -> str:
    """Return the error code of the service, such as invalid_grant."""
    try:
        word = json.loads(body).get("error")
    except (ValueError, AttributeError, RecursionError):
        return ""
    return word if isinstance(word, str) and word.isascii() and word.replace("_", "").isalnum() else ""


def withheld_token(what: str, hint: CredentialHint, grant: HostGrant) -> AuthDenied:
    """Return the error for a token service that may not receive the key."""
    return denied(RequestSubject(f"a token for {what}", hint, grant), "it is a token service")
