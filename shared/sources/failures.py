"""Maps unsuccessful statuses to errors that say what to do."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from shared.errors import AuthDenied, LarderError, RateLimited, SourceChanged, SourceNotFound, Unreachable
from shared.http.client import REDIRECT_TRIES
from shared.http.retry_after import DEFAULT_WAIT_S, asked_wait_s, stated_wait_s, wait_message
from shared.sources.credential_hints import CredentialHint
from shared.sources.host_grants import HostGrant


@dataclass(frozen=True, slots=True)
class RequestSubject:
    """The subject of a request for messages: what was requested, where its credentials come from, and what was sent."""

    what: str
    hint: CredentialHint
    grant: HostGrant


def failure_of(status: int, headers: Mapping[str, str], subject: RequestSubject, now: float) -> LarderError:
    """Return the error for a status of 300 or more; `now` in seconds since 1970, for dates in Retry-After."""
    where = f"{subject.what} at {subject.grant.host} (status {status})"
    wait_s = asked_wait_s(status, headers, now)
    match status:
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            return denied(subject, f"status {status}")
        case HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
            return AuthDenied(
                f"the proxy for {subject.grant.host} requires authentication (status 407); add USER:PASSWORD@ to "
                "HTTP_PROXY or HTTPS_PROXY"
            )
        case HTTPStatus.NOT_FOUND:
            return SourceNotFound(f"there is no {where}; correct the URI")
        case HTTPStatus.GONE | HTTPStatus.PRECONDITION_FAILED:
            return SourceChanged(f"{where} changed since it was resolved; it will be resolved again")
        case HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return SourceChanged(f"{where} is shorter than when it was resolved")
        case HTTPStatus.TOO_MANY_REQUESTS:
            return rate_limited(headers, subject, now)
        case HTTPStatus.SERVICE_UNAVAILABLE if wait_s is not None:
            return RateLimited(f"{subject.grant.host} is unavailable for {wait_message(wait_s, now)}", wait_s)
        case _ if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            return Unreachable(
                f"{where} redirects, which is not followed because requests are signed for one host; configure the "
                "right endpoint",
                REDIRECT_TRIES,
            )
        case _:
            return Unreachable(f"no usable response for {where}")


def rate_limited(
    headers: Mapping[str, str], subject: RequestSubject, now: float, default_s: float = DEFAULT_WAIT_S
) -> RateLimited:
    """Return the error for a server that asks for a pause; it lasts `default_s` seconds if the server names no time."""
    stated_s = stated_wait_s(headers, now)
    wait_s = default_s if stated_s is None else stated_s
    return RateLimited(f"{subject.grant.host} asks to wait {wait_message(wait_s, now)} before {subject.what}", wait_s)


def denied(subject: RequestSubject, detail: str) -> AuthDenied:
    """Return the refusal, with advice that fits what was sent."""
    host = subject.grant.host
    if subject.grant.ambient:
        return _denied_to_user(subject, detail)
    if subject.grant.withheld:
        return AuthDenied(
            f"{host} requires credentials for {subject.what} ({detail}), and those in the Secret were not sent because "
            f"it does not name this host; to allow that, add {subject.grant.place} to the Secret's annotation "
            "larder.dev/hosts"
        )
    if subject.grant.values:
        return AuthDenied(
            f"{host} refuses these credentials for {subject.what} ({detail}); put valid credentials that may read it "
            f"into the Secret ({subject.hint.secret})"
        )
    message = f"{host} requires credentials for {subject.what} ({detail}); name a Secret with {subject.hint.secret}"
    return AuthDenied(message)


def _denied_to_user(subject: RequestSubject, detail: str) -> AuthDenied:
    """Return the refusal for a user at the shell: advises on environment and files, because there is no Secret."""
    grant = subject.grant
    refused = "refuses these credentials" if grant.values else "requires credentials"
    withheld = ", and yours were not sent because they are for other hosts" if grant.withheld else ""
    return AuthDenied(f"{grant.host} {refused} for {subject.what} ({detail}){withheld}; {subject.hint.ambient}")
