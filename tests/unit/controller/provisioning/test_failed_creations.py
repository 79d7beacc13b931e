"""When a failed creation is retried."""

from controller.provisioning.failed_creations import FailedCreations
from shared.kube.errors import Refused, Unreachable


def test_a_refused_request_is_retried_with_growing_pauses() -> None:
    now = 100.0
    failures = FailedCreations[str](lambda: now)
    pauses = []
    for _ in range(4):
        failures.note("a", Refused("exceeded quota", 403))
        found = failures.of("a")
        assert found is not None
        assert found.retry_s is not None
        pauses.append(found.retry_s)
    now += pauses[-1] + 1
    due = failures.of("a")
    assert due is not None
    assert due.retry_s == 0
    assert "exceeded quota" in due.message
    assert pauses[0] < pauses[-1] <= 120


def test_any_other_failure_has_no_pause_because_the_queue_retries_it() -> None:
    failures = FailedCreations[str](lambda: 100.0)
    failures.note("a", Unreachable("no answer"))
    found = failures.of("a")
    assert found is not None
    assert found.retry_s is None
    failures.forget("a")
    assert failures.of("a") is None
