"""Which pods wait for a claim that another pod uses."""

from dataclasses import replace

import pytest

from controller.claims.contention import limit_of, users_of, waits_of
from controller.claims.decide import decide
from controller.claims.result import takes_pods
from controller.claims.view import ClaimView
from controller.jobs.observed_jobs import ClaimPod, PodStatus
from controller.manager.actions import Requeue
from shared.api.core import ClaimSpec, ObservedCondition, PersistentVolumeClaim
from shared.kube.objects import Meta
from tests.builders.claims import NOW, claim, read, reported, user, view

RWO, RWOP = claim("Bound", "ReadWriteOnce"), claim("Bound", "ReadWriteOncePod")
MOUNTING = ObservedCondition(type="PodReadyToStartContainers", status="False")
STARTED = ObservedCondition(type="PodReadyToStartContainers", status="True")
NOWHERE = ObservedCondition(
    type="PodScheduled", status="False", reason="Unschedulable", message="0/2 nodes are available"
)


def pod(name: str, node: str = "", *conditions: ObservedCondition, ends: str = "") -> ClaimPod:
    return user(name, node, PodStatus(conditions=list(conditions)), ends=ends)


def waits(found: PersistentVolumeClaim, *pods: ClaimPod) -> list[tuple[str, str]]:
    return [(w.pod.metadata.name, w.holder.metadata.name) for w in waits_of(found, pods)]


@pytest.mark.parametrize(
    ("modes", "limit"),
    [
        ((), ""),
        (("ReadWriteMany",), ""),
        (("ReadOnlyMany", "ReadWriteOnce"), ""),
        (("ReadWriteOnce",), "ReadWriteOnce"),
        (("ReadWriteOncePod",), "ReadWriteOncePod"),
    ],
)
def test_a_claim_is_limited_by_its_most_permissive_access_mode(modes: tuple[str, ...], limit: str) -> None:
    assert limit_of(PersistentVolumeClaim(metadata=Meta(), spec=ClaimSpec(access_modes=list(modes)))) == limit


def test_a_second_pod_of_a_claim_for_one_pod_waits_for_the_first() -> None:
    first, second = pod("a", "n1", STARTED), pod("b", "", NOWHERE)
    assert waits(RWOP, second, first) == [("b", "a")]
    (wait,) = waits_of(RWOP, [first, second])
    assert wait.message == "pod b waits: PVC data is ReadWriteOncePod and in use by pod a on node n1"
    assert waits(RWOP, first, pod("c", "n1", MOUNTING)) == [("c", "a")], "the pod names its node itself"
    assert waits(RWOP, second) == [], "the pod waits for something else"
    assert waits(RWOP, first, pod("b", "")) == [], "the scheduler has not tried the pod yet"


def test_a_pod_on_another_node_than_the_volume_s_waits() -> None:
    first, far = pod("a", "n1", STARTED), pod("b", "n2", MOUNTING)
    assert waits(RWO, far, first) == [("b", "a")]
    (wait,) = waits_of(RWO, [first, far])
    assert wait.message == "pod b on node n2 waits: PVC data is ReadWriteOnce and in use by pod a on node n1"
    assert waits(RWO, first, pod("b", "n1", MOUNTING)) == [], "on the same node, the pod is only starting"
    assert waits(RWO, first, pod("b", "n2", STARTED)) == [], "the volume can be on both nodes"
    assert waits(RWO, first, pod("b", "", NOWHERE)) == [], "the scheduler does not know about attached volumes"
    assert waits(claim(), far, first) == []


def test_a_pod_that_ends_holds_its_volume_and_waits_for_none() -> None:
    ending = pod("a", "n1", MOUNTING, ends="2026-01-01T00:00:00Z")
    assert waits(RWO, ending, pod("b", "n2", MOUNTING)) == [("b", "a")]
    assert waits(RWO, pod("a", "n1", STARTED), pod("b", "n2", MOUNTING, ends="now")) == []


def test_two_pods_that_just_started_mounting_are_not_reported_as_waiting() -> None:
    assert waits(RWO, pod("a", "n1", MOUNTING), pod("b", "n2", MOUNTING)) == []


def test_the_pod_that_has_the_volume_comes_first_among_the_users() -> None:
    assert [p.metadata.name for p in users_of(RWO, [pod("a", "n1", MOUNTING), pod("b", "n2")])] == ["b", "a"]


def test_the_model_reports_waiting_pods_and_stays_ready() -> None:
    second, third = pod("b", "", NOWHERE), pod("c", "", NOWHERE)
    settled = read(view(claim=RWOP))
    held = replace(settled, waits=tuple(waits_of(RWOP, [pod("a", "n1"), second, third])))
    actions = decide(held, NOW)
    ready = reported(actions).claim_result.ready
    assert (reported(actions).claim_result.state, ready.status, ready.reason) == ("Ready", "True", "ClaimInUse")
    assert ready.message.startswith("pod b waits: PVC data is ReadWriteOncePod and in use by pod a on node n1 (1 more")
    assert takes_pods(ready)
    (again,) = (a for a in actions if isinstance(a, Requeue))
    assert again.after_s <= 10, "there is no signal when the volume is mounted"
    assert reported(decide(settled, NOW)).claim_result.ready.reason == "OnClaim"


def test_a_claim_is_checked_more_often_while_its_pods_start() -> None:
    def idle_s(seen: ClaimView) -> float:
        (again,) = (a for a in decide(seen, NOW) if isinstance(a, Requeue))
        return again.after_s

    settled = read(view(claim=RWO))
    assert idle_s(replace(settled, starting=True)) <= 10 < idle_s(settled)
