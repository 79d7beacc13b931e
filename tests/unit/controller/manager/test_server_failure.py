"""Which failures hold up everybody."""

import pytest

from controller.manager.server_failure import concerns_all
from shared.kube.errors import Busy, Conflict, KubeError, Malformed, Refused, Unreachable


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Unreachable("no response from the API server"), True),
        (Unreachable("500 InternalError: etcdserver: request timed out"), True),
        (Busy("429 TooManyRequests: too many requests", 1, 429), True),
        (Busy("503 ServiceUnavailable: starting", None, 503), True),
        (Unreachable('500 InternalError: Internal error occurred: failed calling webhook "a.b": refused'), False),
        (Unreachable("500 InternalError: conversion webhook for jobset.x-k8s.io/v1alpha2, Kind=JobSet failed"), False),
        (Busy('429 TooManyRequests: admission webhook "a.b" denied the request: wait', 60, 429), False),
        (Refused("403 Forbidden: exceeded quota: q", 403), False),
        (Conflict("409 Conflict: taken"), False),
        (Malformed("not JSON"), False),
    ],
)
def test_only_failures_of_the_server_concern_all(error: KubeError, expected: bool) -> None:  # noqa: FBT001 - a column of the table
    assert concerns_all(error, others_succeed=False) is expected


def test_a_server_that_serves_others_meanwhile_is_not_down_but_may_still_request_a_pause() -> None:
    assert not concerns_all(Unreachable("no answer within 30 s"), others_succeed=True)
    assert concerns_all(Busy("429 TooManyRequests: too many requests", 1, 429), others_succeed=True)
