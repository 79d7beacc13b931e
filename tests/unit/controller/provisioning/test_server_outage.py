"""Which failures pause all requests."""

import pytest

from controller.provisioning.server_outage import ServerOutage, concerns_all
from shared.backoff import Backoff
from shared.kube.errors import Busy, Conflict, KubeError, Malformed, NotAdmitted, Refused, Unreachable


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Unreachable("no response from the API server"), True),
        (Unreachable("500 InternalError: etcdserver: request timed out"), True),
        (Busy("429 TooManyRequests: too many requests", 1, 429), True),
        (Busy("503 ServiceUnavailable: starting", None, 503), True),
        (NotAdmitted('500 InternalError: failed calling webhook "a.b": refused', 500), False),
        (Unreachable("500 InternalError: conversion webhook for jobset.x-k8s.io/v1alpha2, Kind=JobSet failed"), False),
        (Refused("403 Forbidden: exceeded quota: q", 403), False),
        (Conflict("409 Conflict: taken"), False),
        (Malformed("not JSON"), False),
    ],
)
def test_only_failures_of_the_server_itself_pause_all_namespaces(error: KubeError, expected: bool) -> None:  # noqa: FBT001 - a column of the table
    assert concerns_all(error, others_succeed=False) is expected


def test_a_timeout_pauses_only_its_namespace_if_others_succeed_but_a_busy_server_pauses_all() -> None:
    assert not concerns_all(Unreachable("no answer within 30 s"), others_succeed=True)
    assert concerns_all(Busy("429 TooManyRequests: too many requests", 1, 429), others_succeed=True)


def test_failures_of_attempts_that_ran_at_the_same_time_count_once() -> None:
    outage = ServerOutage(Backoff(first_s=8, cap_s=60))
    outage.note(Unreachable("no answer"), begun_s=90, now_s=100)
    first = outage.resumes_at_s
    assert first > 100
    outage.note(Unreachable("no answer"), begun_s=99, now_s=101)
    assert (outage.failures, outage.resumes_at_s) == (1, first)
    outage.note(Unreachable("no answer"), begun_s=first, now_s=first + 1)
    assert outage.failures == 2
    assert outage.resumes_at_s > first + 1


def test_a_server_may_request_a_longer_but_not_an_endless_pause() -> None:
    for asked_s, longest_s in ((50.0, 60.0), (86_400.0, 130.0)):
        outage = ServerOutage(Backoff(first_s=1, cap_s=2))
        outage.note(Busy("429 TooManyRequests: too many requests", asked_s, 429), begun_s=0, now_s=0)
        assert min(asked_s, 120) <= outage.resumes_at_s <= longest_s


def test_a_pause_ends_although_the_event_loop_wakes_a_moment_early() -> None:
    outage = ServerOutage(Backoff(first_s=1, cap_s=2), resumes_at_s=10)
    assert outage.wait_s(9.75) == 0.25
    assert outage.wait_s(10 - 8e-10) == 0
    assert outage.wait_s(10.5) == 0
