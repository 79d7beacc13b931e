"""How a TrainingJob ends."""

from datetime import timedelta
from typing import Any

import pytest

from controller.trainingjobs.outcome import JobOutcome, outcome_of
from shared.api.training_job import RunPolicy, TrainingJobStatus
from tests.builders.training_jobs import EARLIER, NOW, Observed, claim, pod, replica_spec, training_job


def outcome(phases: dict[str, str], roles: dict[str, Any] | None = None, **fields: Any) -> JobOutcome | None:
    found = Observed(training_job(**(roles or {"Worker": replica_spec(2)}), **fields))
    claims = [claim(f"data-tj-{name}") for name in phases]
    return outcome_of(found.view(*claims, *(pod(f"tj-{name}", phase) for name, phase in phases.items())), NOW)


@pytest.mark.parametrize(
    ("policy", "phases", "succeeded"),
    [
        ("Default", {"worker-0": "Succeeded", "worker-1": "Running"}, True),
        ("Default", {"worker-0": "Running", "worker-1": "Succeeded"}, False),
        ("AllWorkers", {"worker-0": "Succeeded", "worker-1": "Running"}, False),
        ("AllWorkers", {"worker-0": "Succeeded", "worker-1": "Succeeded"}, True),
    ],
)
def test_worker_0_or_all_workers_decide_by_the_success_policy(
    policy: str, phases: dict[str, str], *, succeeded: bool
) -> None:
    found = outcome(phases, success=policy)
    assert (found is not None and found.succeeded) is succeeded


def test_a_master_decides_the_outcome_instead_of_the_workers() -> None:
    roles = {"Master": replica_spec(), "Worker": replica_spec()}
    assert outcome({"master-0": "Running", "worker-0": "Succeeded"}, roles) is None
    found = outcome({"master-0": "Succeeded", "worker-0": "Running"}, roles)
    assert found is not None
    assert (found.succeeded, found.message) == (True, "pod tj-master-0 succeeded")


def test_without_masters_and_workers_all_pods_count() -> None:
    roles = {"Evaluator": replica_spec(2)}
    assert outcome({"evaluator-0": "Succeeded", "evaluator-1": "Running"}, roles) is None
    found = outcome({"evaluator-0": "Succeeded", "evaluator-1": "Succeeded"}, roles)
    assert found is not None
    assert (found.succeeded, found.message) == (True, "all 2 pods that count succeeded")


@pytest.mark.parametrize(
    ("policy", "code", "final"),
    [
        ("Never", 137, True),
        ("OnFailure", 1, False),
        ("Always", 1, False),
        ("ExitCode", 1, True),
        ("ExitCode", 137, False),
    ],
)
def test_a_failure_is_final_if_no_policy_replaces_the_pod(policy: str, code: int, *, final: bool) -> None:
    found = Observed(training_job(Worker=replica_spec(restart_policy=policy)))
    ended = outcome_of(found.view(claim(), pod(phase="Failed", code=code)), NOW)
    assert (ended is not None and ended.reason == "PodFailed") is final


def test_restarts_beyond_the_limit_end_a_job() -> None:
    for limit, ends in ((3, False), (2, True)):
        job = training_job(TrainingJobStatus(start_time=EARLIER, restarts=1), run=RunPolicy(backoff_limit=limit))
        ended = outcome_of(Observed(job).view(claim(), pod(restarts=2)), NOW)
        assert (ended is not None and ended.reason == "BackoffLimitExceeded") is ends


def test_a_job_ends_at_its_deadline_unless_it_succeeded_by_then() -> None:
    run = RunPolicy(active_deadline_seconds=600)  # the job started ten minutes ago
    found = Observed(training_job(run=run))
    view = found.view(claim(), pod())
    ended = outcome_of(view, NOW)
    assert ended is not None
    assert (ended.succeeded, ended.reason) == (False, "DeadlineExceeded")
    assert outcome_of(view, NOW - timedelta(seconds=1)) is None
    succeeded = outcome_of(Observed(training_job(run=run)).view(claim(), pod(phase="Succeeded")), NOW)
    assert succeeded is not None
    assert succeeded.succeeded
