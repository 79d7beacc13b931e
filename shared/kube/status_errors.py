"""Maps a status code and a body to an error."""

from collections.abc import Mapping

import msgspec

from shared.decode_errors import DECODE_ERRORS
from shared.kube.errors import (
    AlreadyExists,
    Busy,
    Conflict,
    Expired,
    KubeError,
    Malformed,
    NotAdmitted,
    NotFound,
    Refused,
    Unreachable,
)
from shared.kube.objects import Status

_NO_HEADERS: Mapping[str, str] = {}
_SERVER_FAILED = 500
# Denials by an API server that has just started, for requests that it will allow in a moment.
_STARTING = ("failed to find resource referenced by paramKind", "not yet ready to handle request")
# Failures of admission, which come with status 500. A webhook also chooses the status of its denials.
_ADMISSION = ('failed calling webhook "', 'admission webhook "', "resource quota evaluation timed out")
_TOO_MANY_REQUESTS = 429


def error_from_status(code: int, body: bytes | msgspec.Raw, headers: Mapping[str, str] = _NO_HEADERS) -> KubeError:
    """Return the error for a failed request; with code 0, the code is read from the Status in the body.

    The body is a Status, unless a proxy replaced it with something else.
    """
    status = _status(body)
    code = code or status.code
    text = f"{code} {status.reason}: {status.message}"
    if any(phrase in status.message for phrase in _STARTING):
        return Busy(text, None, code)
    asks_again = code == _TOO_MANY_REQUESTS or code >= _SERVER_FAILED
    if asks_again and any(phrase in status.message for phrase in _ADMISSION):
        return NotAdmitted(text, code)
    match code:
        case 404:
            return NotFound(text)
        case 409:
            return AlreadyExists(text) if status.reason == AlreadyExists.__name__ else Conflict(text)
        case 410:
            return Expired(text)
        case 429 | 503:
            return Busy(text, _after_s(status, headers), code)
        case 0:
            return Malformed(f"an error without a code: {bytes(body)[:200]!r}")
        case _ if code >= _SERVER_FAILED:
            return Unreachable(text)
        case _:
            return Refused(text, code)


def _status(body: bytes | msgspec.Raw) -> Status:
    try:
        return msgspec.json.decode(body, type=Status)
    except DECODE_ERRORS:
        return Status(message=bytes(body)[:200].decode(errors="replace"))


def _after_s(status: Status, headers: Mapping[str, str]) -> float | None:
    if status.details and status.details.retry_after_seconds:
        return status.details.retry_after_seconds
    header = headers.get("Retry-After", "")
    return float(header) if header.isascii() and header.isdecimal() else None
