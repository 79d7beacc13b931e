"""What a decision on a TrainingJob sees: failures that still matter."""

import pytest

from controller.trainingjobs.decide import CreatePods, CreateService, decide
from shared.kube.errors import Refused
from shared.kube.objects import Meta, Object
from tests.builders.training_jobs import (
    NOW,
    Observed,
    claim,
    owned_by,
    pod,
    replica_spec,
    training_job,
)

QUOTA = Refused("403 Forbidden: exceeded quota", 403)
SERVICE = Object(metadata=Meta(name="tj", namespace="team", uid="s1", owner_references=owned_by()))


def test_a_service_that_exists_although_its_creation_seemed_to_fail_does_not_block_the_pods() -> None:
    """It was refused, and the answer to the next attempt was lost."""
    found = Observed(training_job())
    found.failures.note(("u1", ""), QUOTA)
    actions = decide(found.view(claim()), NOW)
    assert not any(isinstance(action, CreateService | CreatePods) for action in actions)
    found.jobs.services.upsert(SERVICE)
    view = found.view()
    assert view.failures == {}
    assert any(isinstance(action, CreatePods) for action in decide(view, NOW))
    assert found.failures.of(("u1", "")) is None


@pytest.mark.parametrize("kept", [1, 2])
def test_a_refusal_ends_with_the_last_pod_or_with_the_replica_that_was_refused(kept: int) -> None:
    """The role was scaled down, or the answer to the creation of the last pod was lost."""
    found = Observed(training_job(Worker=replica_spec(2)))
    found.failures.note(("u1", "Worker"), QUOTA)
    assert "Worker" in found.view(claim(), pod(), claim("data-tj-worker-1")).failures
    scaled = Observed(training_job(Worker=replica_spec(kept)))
    scaled.failures.note(("u1", "Worker"), QUOTA)
    pods = [pod(f"tj-worker-{index}") for index in range(kept)]
    assert scaled.view(*pods, *(claim(f"data-{one.metadata.name}") for one in pods)).failures == {}


def test_a_job_does_not_inherit_the_failures_of_an_earlier_one_of_its_name() -> None:
    found = Observed(training_job())
    found.failures.note(("u0", "Worker"), QUOTA)
    assert found.view().failures == {}
