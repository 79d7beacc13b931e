"""What is reported about the missing pods of a service."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controller.claims.contention import Wait
from controller.inferenceservices.blockers import Blocker, blocker_of
from controller.inferenceservices.deployment import SERVICE_LABEL
from controller.inferenceservices.view import ServiceView
from controller.jobs.observed_jobs import ClaimPod, ClaimPodSpec, ContainerState, ContainerStatus, PodStatus, Waiting
from shared.api.core import ObservedCondition
from shared.kube.objects import Meta
from tests.builders.services import deployment, view

NOWHERE = PodStatus(
    conditions=[ObservedCondition(type="PodScheduled", status="False", message="0/2 nodes are available")]
)


def pod(name: str, status: PodStatus | None = None, service: str = "svc") -> ClaimPod:
    meta = Meta(name=name, namespace="team", labels={SERVICE_LABEL: service} if service else {})
    return ClaimPod(metadata=meta, spec=ClaimPodSpec(node_name="n1"), status=status or PodStatus())


def waiting(reason: str, message: str = "") -> PodStatus:
    side = ContainerStatus(state=ContainerState())
    state = ContainerState(waiting=Waiting(reason=reason, message=message))
    return PodStatus(container_statuses=[side, ContainerStatus(state=state)])


def found(seen: ServiceView, *conditions: str) -> Blocker | None:
    return blocker_of(seen, deployment(conditions=conditions))


@pytest.mark.parametrize(
    ("status", "reason", "phrase"),
    [
        (NOWHERE, "Unschedulable", "pod p cannot be scheduled: 0/2 nodes are available"),
        (waiting("ImagePullBackOff", "no such image"), "ContainerNotStarted", "pod p: ImagePullBackOff: no such image"),
        (waiting("CrashLoopBackOff"), "ContainerNotStarted", "pod p: CrashLoopBackOff"),
    ],
)
def test_the_first_pod_with_a_problem_is_reported(status: PodStatus, reason: str, phrase: str) -> None:
    seen = replace(view(), pods=(pod("fine"), pod("p", status)))
    assert found(seen) == Blocker(reason, phrase)
    assert found(seen, "Progressing=False") == Blocker(reason, phrase), "rather than the long start"


def test_a_pod_that_ends_is_not_a_problem() -> None:
    ending = pod("p", NOWHERE)
    meta = msgspec.structs.replace(ending.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    assert found(replace(view(), pods=(msgspec.structs.replace(ending, metadata=meta),))) is None


@pytest.mark.parametrize("reason", ["", "ContainerCreating", "PodInitializing"])
def test_a_pod_that_starts_is_not_a_problem(reason: str) -> None:
    assert found(replace(view(), pods=(pod("p", waiting(reason)),))) is None


@pytest.mark.parametrize(
    ("holder", "way_out"), [("svc", "set spec.strategy to {type: Recreate}"), ("", "it starts when that pod ends")]
)
def test_a_claim_that_is_held_is_reported_before_what_the_scheduler_reports(holder: str, way_out: str) -> None:
    wait = Wait(pod("p", NOWHERE), pod("h", service=holder), "pod p waits")
    reported = found(replace(view(), pods=(wait.pod,), waits=(wait,)))
    assert reported is not None
    assert reported.reason == "ClaimInUse"
    assert reported.message.startswith(f"pod p waits; {way_out}")


@pytest.mark.parametrize(
    ("status", "short"),
    [
        ({"replicas": 2, "updated_replicas": 2, "ready_replicas": 2}, False),
        ({"replicas": 2, "updated_replicas": 2, "ready_replicas": 1}, True),
        ({"replicas": 3, "updated_replicas": 1, "ready_replicas": 2}, True),
        ({"replicas": 2, "updated_replicas": 2, "ready_replicas": 2, "observed_generation": 4}, True),
    ],
)
def test_pods_are_searched_for_until_all_of_the_newest_are_ready(status: dict[str, Any], short: bool) -> None:  # noqa: FBT001 - a row of the table
    assert deployment(wanted=2, **status).is_short is short


def test_a_slow_check_is_repeated_less_often() -> None:
    assert deployment(conditions=["Progressing=False"]).is_stalled
    assert not deployment(conditions=["Progressing=True"]).is_stalled
    assert not deployment().is_stalled
