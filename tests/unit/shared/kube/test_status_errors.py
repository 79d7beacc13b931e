import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from shared.kube.status_errors import error_from_status


def status(code: int, **more: object) -> bytes:
    return json.dumps({"kind": "Status", "code": code, "reason": "Why", "message": "because", **more}).encode()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, Refused), (401, Refused), (403, Refused), (404, NotFound), (409, Conflict), (410, Expired),
        (422, Refused), (429, Busy), (500, Unreachable), (502, Unreachable), (503, Busy), (504, Unreachable),
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["http", "event"])
def test_each_code_has_its_error(code: int, kind: type[KubeError], where: str) -> None:
    error = error_from_status(code if where == "http" else 0, status(code))
    assert type(error) is kind
    assert str(error) == f"{code} Why: because"


@pytest.mark.parametrize(("reason", "kind"), [("AlreadyExists", AlreadyExists), ("Conflict", Conflict)])
def test_a_taken_name_is_told_from_a_change_by_others(reason: str, kind: type[KubeError]) -> None:
    assert type(error_from_status(409, status(409, reason=reason))) is kind


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (422, "failed to configure policy: failed to find resource referenced by paramKind: 'larder.dev/v1alpha1'"),
        (403, 'pods "a" is forbidden: not yet ready to handle request'),
    ],
)
def test_a_denial_by_a_server_that_has_just_started_is_retried(code: int, message: str) -> None:
    error = error_from_status(code, status(code, message=message))
    assert isinstance(error, Busy)
    assert error.retryable


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (500, 'Internal error occurred: failed calling webhook "a.b": failed to call webhook: Post ...: EOF'),
        (500, "Internal error occurred: resource quota evaluation timed out"),
        (500, 'admission webhook "a.b" denied the request: the decision failed'),
        (429, 'admission webhook "a.b" denied the request: later'),
        (503, 'admission webhook "a.b" denied the request: later'),
    ],
)
def test_a_failure_of_admission_is_a_refusal_that_may_end(code: int, message: str) -> None:
    error = error_from_status(code, status(code, message=message))
    assert isinstance(error, NotAdmitted)
    assert (error.code, error.retryable) == (code, True)


def test_a_denial_by_a_webhook_is_final_unless_its_status_asks_for_another_attempt() -> None:
    error = error_from_status(403, status(403, message='admission webhook "a.b" denied the request: no'))
    assert type(error) is Refused


def test_the_retry_time_is_read_from_the_body_or_the_header() -> None:
    named = error_from_status(429, status(429, details={"retryAfterSeconds": 7}), {"Retry-After": "3"})
    header = error_from_status(503, b"<html>", {"Retry-After": "3"})
    date = error_from_status(503, b"<html>", {"Retry-After": "Fri, 20 Nov 2026 10:00:00 GMT"})
    waits = [error.after_s for error in (named, header, date) if isinstance(error, Busy)]
    assert waits == [7, 3, None]


def test_an_error_event_without_a_code_is_malformed() -> None:
    assert type(error_from_status(0, b'{"kind": "Status"}')) is Malformed


@settings(deadline=None)  # a busy machine is not a failure
@given(code=st.integers(400, 599), body=st.binary(max_size=50))
def test_any_body_gives_an_error_that_names_the_code(code: int, body: bytes) -> None:
    assert str(code) in str(error_from_status(code, body))
