"""Maps the error codes of S3 to errors that say what to do."""

import html
import re
from collections.abc import Mapping
from http import HTTPStatus

from shared.errors import AuthDenied, InvalidURI, LarderError, SourceNotFound, Unreachable
from shared.http.client import REDIRECT_TRIES
from shared.sources.failures import RequestSubject, denied, failure_of, rate_limited

_FIELD = re.compile(r"<(Code|Region|ServerTime)>([^<]{1,200})</\1>")
_SLOW_DOWN_S = 5.0


def error_fields(body: bytes) -> dict[str, str]:
    """Return the fields of an S3 error document that the messages need; empty if it is not one."""
    return {name: html.unescape(value) for name, value in _FIELD.findall(body.decode(errors="replace"))}


def decide_s3_failure(
    status: int, headers: Mapping[str, str], fields: Mapping[str, str], subject: RequestSubject, now: float
) -> LarderError:
    """Return the error for an unsuccessful S3 response; `fields` come from `error_fields`.

    `now` is in seconds since 1970.
    """
    code, host = fields.get("Code", ""), subject.grant.host
    region = headers.get("x-amz-bucket-region") or fields.get("Region") or ""
    match code:
        case "NoSuchBucket":
            return SourceNotFound(f"{host} has no such bucket: {subject.what}; correct the URI")
        case "NoSuchKey":
            return SourceNotFound(f"{host} has no object {subject.what}; correct the URI")
        case "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "ExpiredToken" | "InvalidToken" | "AccessDenied":
            return denied(subject, code)
        case "RequestTimeTooSkewed":
            at = fields.get("ServerTime", "unknown")
            return AuthDenied(
                f"{host} refuses requests because the clock of this machine is wrong (RequestTimeTooSkewed, the "
                f"server's time is {at}); correct the clock, for example by NTP"
            )
        case "InvalidObjectState":
            return SourceNotFound(f"{subject.what} is archived and cannot be read; restore it in the bucket first")
        case "SlowDown" | "TooManyRequests" | "RequestLimitExceeded":
            return rate_limited(headers, subject, now, _SLOW_DOWN_S)
        case "AuthorizationHeaderMalformed" | "PermanentRedirect" | "TemporaryRedirect" if region:
            return _other_region(subject, region)
        case _ if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
            return _other_region(subject, region) if region else _moved(subject, status)
        case _:
            return failure_of(status, headers, subject, now)


def _other_region(subject: RequestSubject, region: str) -> LarderError:
    return InvalidURI(f"the bucket of {subject.what} is in the region {region}; write s3://BUCKET@{region}/PREFIX")


def _moved(subject: RequestSubject, status: int) -> LarderError:
    return Unreachable(
        f"{subject.grant.host} redirects {subject.what} (status {status}), which is not followed because requests are "
        "signed for one host; configure the right endpoint or region",
        REDIRECT_TRIES,
    )
