"""The actions for pods that wait for a snapshot."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.manager.actions import Requeue
from controller.waiting_pods.decide import (
    DELAYED,
    HERE,
    REMOVED,
    REVISION_GONE,
    WAITING,
    Action,
    FailPod,
    RemoveGate,
    ReportOnPods,
    decide,
)
from controller.waiting_pods.keys import WaitingKey
from controller.waiting_pods.view import MissingFiles, WaitingPod, WaitingView
from shared.api.core import Pod
from tests.builders.cluster import pod

KEY = WaitingKey("ns", "m", "r1")
MISSING = MissingFiles("a", phase="Downloading", done_bytes=3 * 2**30, total_bytes=12 * 2**30)


def waiting(name: str = "p", node: str = "", **fields: Any) -> WaitingPod:
    return WaitingPod(pod(name, node, uid=f"uid-{name}", phase="Pending"), **({"placement": "preferred"} | fields))


def gated(name: str = "p", **fields: Any) -> WaitingPod:
    return waiting(name, placement="gated", gated=True, **fields)


def bound(name: str = "p", **fields: Any) -> WaitingPod:
    return waiting(name, "a", **({"missing": MISSING} | fields))


def view(*pods: WaitingPod, **fields: Any) -> WaitingView:
    return WaitingView(KEY, pods, **fields)


def notified(actions: list[Action]) -> list[ReportOnPods]:
    return [action for action in actions if isinstance(action, ReportOnPods)]


def ungated(actions: list[Action]) -> list[Pod]:
    return [action.pod for action in actions if isinstance(action, RemoveGate)]


def test_a_gate_stays_until_a_node_that_fits_has_the_files() -> None:
    (says, again) = decide(view(gated()))
    assert isinstance(says, ReportOnPods)
    assert (says.reason, says.warn, says.owners) == (WAITING, False, False)
    assert again == Requeue(3600.0)
    ready = gated(fits=True)
    assert ungated(decide(view(ready, on_some_node=True))) == [ready.pod]


def test_a_pod_that_failed_recently_is_skipped_and_does_not_delay_others() -> None:
    ready, failing = gated(fits=True), bound("q", fails=True)
    failed = [replace(w, recently_failed=True) for w in (ready, failing)]
    actions = decide(view(*failed, gated("r", fits=True), on_some_node=True))
    assert [p.metadata.name for p in ungated(actions)] == ["r"]
    assert not any(isinstance(a, FailPod) for a in actions)
    assert actions[-1] == Requeue(60.0)


def test_the_gate_of_a_pod_without_a_model_is_removed() -> None:
    lost = gated()
    actions = decide(WaitingView(WaitingKey("ns", "", ""), (lost,), declared=False, obtainable=False))
    assert ungated(actions) == [lost.pod]
    assert notified(actions) == []


def test_at_most_fifty_pods_are_changed_at_a_time() -> None:
    actions = decide(view(*(gated(f"p{i}", fits=True) for i in range(2000)), on_some_node=True))
    assert len(ungated(actions)) == 50
    assert [a for a in actions if isinstance(a, Requeue)] == [Requeue(0.1)]


def test_a_pod_on_a_node_without_the_files_gets_an_event_with_their_progress() -> None:
    (says, again) = decide(view(bound(), on_some_node=True))
    assert isinstance(says, ReportOnPods)
    assert (says.reason, says.warn, says.owners) == (WAITING, False, False)
    assert "node a does not have model m@r1 yet (Downloading: 3.0 GiB of 12.0 GiB, 25 %)" in says.message
    assert again == Requeue(60.0)


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ({"phase": "Failed", "reason": "InsufficientStorage", "message": "needs 5"}, "InsufficientStorage: needs 5"),
        ({"node_ready": False}, "not Ready"),
        ({"obstacle": "the model does not select this node"}, "does not select this node"),
        ({"phase": "Pending", "agent_away_s": 300.0}, "no ready agent for 5 minutes"),
    ],
)
def test_obstacles_of_a_download_are_warnings(missing: dict[str, Any], says: str) -> None:
    (event,) = notified(decide(view(bound(missing=replace(MISSING, **missing)))))
    assert (event.reason, event.warn, event.owners) == (DELAYED, True, False)
    assert says in event.message


def test_a_node_whose_agent_is_about_to_start_is_no_reason_for_a_warning() -> None:
    (event,) = notified(decide(view(bound(missing=replace(MISSING, phase="Pending", agent_away_s=30.0)))))
    assert event.reason == WAITING


def test_only_a_visible_step_of_the_download_causes_an_event() -> None:
    def news(**missing: Any) -> str:
        return notified(decide(view(bound(missing=replace(MISSING, **missing)))))[0].state_key

    assert news() == news(done_bytes=MISSING.done_bytes + 2**20)
    assert len({news(), news(done_bytes=6 * 2**30), news(phase="Waiting")}) == 3


def test_at_most_five_pods_get_progress_events() -> None:
    assert len(notified(decide(view(*(bound(f"p{i}") for i in range(100)))))) == 5


def test_once_the_files_are_present_only_pods_that_waited_get_an_event() -> None:
    waited = bound("p", missing=None, notified=True)
    actions = decide(view(waited, bound("q", missing=None), on_some_node=True))
    assert [(e.pods, e.reason, e.warn) for e in notified(actions)] == [((waited.pod,), HERE, False)]
    assert not any(isinstance(a, Requeue) for a in actions)


def test_only_a_pod_that_was_on_its_node_before_the_files_gets_the_hint_about_the_mount() -> None:
    heard = {
        placement: notified(decide(view(bound(placement=placement, missing=None, notified=True))))[0].message
        for placement in ("preferred", "gated")
    }
    assert heard["preferred"].endswith("is on node a; kubelet mounts it within two minutes")
    assert heard["gated"].endswith("is on node a")


def test_a_pod_that_opted_to_fail_is_failed_only_if_its_node_lacks_the_files() -> None:
    failing = bound(fails=True)
    (ends, again) = decide(view(failing))
    assert isinstance(ends, FailPod)
    assert (ends.pod, "larder.dev/on-missing is fail" in ends.message) == (failing.pod, True)
    assert again == Requeue(60.0)
    assert decide(view(bound(fails=True, missing=None), on_some_node=True)) == []
    assert decide(view(waiting(fails=True), on_some_node=True)) == []


def test_pods_that_cannot_be_failed_yet_do_not_delay_the_gates_of_others() -> None:
    failing = [bound(f"p{i}", fails=True) for i in range(60)]
    ready = gated(fits=True)
    (opens, again) = decide(view(*failing, ready, on_some_node=True, paused=True))
    assert opens == RemoveGate(ready.pod)
    assert again == Requeue(60.0)


@pytest.mark.parametrize("lost", [waiting(), gated(), bound()], ids=["unbound", "gated", "bound"])
def test_a_lost_model_or_revision_is_reported_on_the_pod_and_its_owner(lost: WaitingPod) -> None:
    (event,) = notified(decide(view(lost, declared=False, obtainable=False)))
    assert (event.pods, event.reason, event.warn, event.owners) == ((lost.pod,), REMOVED, True, True)
    (event,) = notified(decide(view(lost, serving="r2", obtainable=False)))
    assert (event.pods, event.reason, event.warn, event.owners) == ((lost.pod,), REVISION_GONE, True, True)
    assert "new pods get r2; delete the pod" in event.message


def test_a_pod_that_has_the_files_is_not_affected_by_the_end_of_its_model() -> None:
    assert decide(view(bound(missing=None), declared=False, obtainable=False)) == []


def test_unchecked_pods_are_checked_again_within_seconds() -> None:
    assert decide(view(gated(), on_some_node=True, undecided=True))[-1] == Requeue(5.0)


def test_only_pods_that_lack_files_count_as_waiting() -> None:
    seen = view(gated("g"), bound("b"), waiting("w"), bound("h", missing=None), on_some_node=True)
    assert [w.pod.metadata.name for w in seen.pods if seen.waits(w)] == ["g", "b"]
    assert view().waits(waiting())


states = st.builds(
    waiting,
    st.sampled_from("pqrs"),
    st.sampled_from(["", "a"]),
    gated=st.booleans(),
    fits=st.booleans(),
    missing=st.sampled_from([None, MISSING]),
    fails=st.booleans(),
    notified=st.booleans(),
)


facts = st.fixed_dictionaries(dict.fromkeys(("declared", "obtainable", "on_some_node", "undecided"), st.booleans()))


@given(st.lists(states, max_size=8), facts)
def test_only_gated_pods_are_ungated_and_only_pods_that_opted_in_are_failed(
    pods: list[WaitingPod], known: dict[str, bool]
) -> None:
    actions = decide(view(*pods, **known))
    assert all(any(w.pod is p and w.gated and w.fits for w in pods) for p in ungated(actions))
    ended = [a.pod for a in actions if isinstance(a, FailPod)]
    assert all(any(w.pod is p and w.fails and w.missing for w in pods) for p in ended)
    assert len([a for a in actions if isinstance(a, Requeue)]) <= 1
    if any(w.missing is not None or w.gated for w in pods):
        assert actions
