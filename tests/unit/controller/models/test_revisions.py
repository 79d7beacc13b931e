"""Revisions: when sources are queried, what is recorded, and what the conditions report."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.manager.actions import Requeue, Resolve
from controller.models.decide import CheckDrift, DiscardAnswer, RecordResolution, WriteStatus, decide
from controller.models.report import report
from controller.models.status import cache_status, recorded_status
from controller.models.view import ModelView, Obstacle, PendingRemoval, ResolverAnswer, TargetNode, Upstream
from controller.placement.demand import Resolution
from shared.api.cluster_model_cache import ClusterModelCacheStatus
from shared.api.meta import Condition
from shared.api.model_node import EntryStatus
from tests.builders.models import LATER, NOW, R2, STAMP, cache, node, ready, view

R3 = replace(R2, revision="r3", manifest="e" * 64)
LOST = Obstacle("Unreachable", "no route to the hub", retryable=True)
NO_ROOM = {"reason": "InsufficientStorage", "message": "needs 5 GiB, has 1 GiB of 6 GiB"}


def serving(name: str, phase: str = "", *, old: str = "Ready", **fields: Any) -> TargetNode:
    """A node that has revision r1, and r2 in this phase."""
    reported = EntryStatus(id="m", revision="r1", phase=old)
    return replace(node(name, phase, **fields), serving=reported, revisions=("r1",))


def reported(status: ClusterModelCacheStatus, kind: str) -> Condition:
    return next(c for c in status.conditions if c.type == kind)


def kinds(seen: ModelView) -> list[type]:
    return [type(action) for action in decide(seen, NOW, 600)]


def test_a_refresh_resolves_the_source_again_until_it_is_answered() -> None:
    assert kinds(view(node("a", "Ready"), refresh="1")) == [Resolve, WriteStatus]
    assert kinds(view(node("a", "Ready"), refresh="1", refreshed="1")) == [WriteStatus]
    assert kinds(view(node("a", "Ready"), refreshed="1")) == [WriteStatus], "the annotation was removed again"
    assert kinds(view(node("a", "Ready"), refresh="1", may_resolve=False)) == [WriteStatus]
    assert kinds(view(refresh="1", disabled=True)) == [WriteStatus]


def test_the_answer_to_a_refresh_is_recorded_even_if_the_revision_is_unchanged() -> None:
    seen = view(node("a", "Ready"), refresh="2", refreshed="1", highest_number=4, upstream="r2")
    assert decide(replace(seen, answer=ResolverAnswer(R2, "2")), NOW, 600) == [RecordResolution(R2, 0, "2")]
    assert decide(replace(seen, answer=ResolverAnswer(R3, "2")), NOW, 600) == [RecordResolution(R3, 5, "2")]
    old = replace(seen, answer=ResolverAnswer(R2, "1"))
    assert kinds(old) == [DiscardAnswer, Resolve, WriteStatus], (
        "an answer to an earlier refresh does not answer this one"
    )


def test_a_newer_revision_of_another_object_is_recorded_and_the_refresh_stays_requested() -> None:
    seen = view(node("a", "Ready"), refresh="2", refreshed="1", existing=R3, highest_number=7)
    assert decide(seen, NOW, 600) == [RecordResolution(R3, 7, "1")]


def test_only_a_following_model_resolves_a_drifted_source() -> None:
    assert kinds(view(node("a", "Ready"), upstream="r3")) == [WriteStatus]
    assert kinds(view(node("a", "Ready"), follows=True, upstream="r3")) == [Resolve, WriteStatus]
    assert kinds(view(node("a", "Ready"), follows=True, upstream="r2")) == [WriteStatus]


def test_an_answer_that_contradicts_the_last_drift_check_is_recorded() -> None:
    seen = view(node("a", "Ready"), follows=True, upstream="r3", answer=ResolverAnswer(R2))
    assert decide(seen, NOW, 600) == [RecordResolution(R2, 0, "")], "otherwise, the source would be queried endlessly"


def test_a_due_drift_check_is_replaced_by_a_requested_refresh() -> None:
    assert kinds(view(node("a", "Ready"), drift_check_in_s=0.0)) == [CheckDrift, WriteStatus]
    assert kinds(view(node("a", "Ready"), drift_check_in_s=3.0)) == [WriteStatus]
    assert kinds(view(node("a", "Ready"), refresh="1", drift_check_in_s=0.0)) == [Resolve, WriteStatus]


def test_the_drifted_condition_names_the_new_revision_and_how_to_get_it() -> None:
    status = cache(replace(view(node("a", "Ready")), upstream=Upstream("r3")))
    drifted = reported(status, "Drifted")
    assert (drifted.status, drifted.reason) == ("True", "SourceMoved")
    assert "r3" in drifted.message
    assert "larder.dev/refresh" in drifted.message
    assert status.upstream_revision == "r3"
    assert ready(status) == ("True", "Stocked")
    assert reported(cache(view(node("a", "Ready"), upstream="r3", follows=True)), "Drifted").reason == "Following"


def test_the_drifted_condition_keeps_its_last_result_through_failed_checks_and_then_clears() -> None:
    moved = view(node("a", "Ready"), upstream="r3")
    first = cache(moved)
    lost = cache(replace(moved, upstream=Upstream("", LOST), status=first), first, LATER)
    assert (reported(lost, "Drifted").status, reported(lost, "Drifted").reason) == ("Unknown", "Unreachable")
    assert lost.upstream_revision == "r3"
    assert ready(lost) == ("True", "Stocked")
    restarted = cache(replace(moved, status=lost), lost, LATER)
    assert reported(restarted, "Drifted") == reported(lost, "Drifted"), "no check has run since"
    back = cache(replace(moved, upstream=Upstream("r2"), status=lost), lost, LATER)
    assert reported(back, "Drifted").status == "False"
    assert not [c for c in cache(view(node("a", "Ready"))).conditions if c.type == "Drifted"], "never checked"
    elsewhere = cache(replace(view(resolution=None, upstream="r3"), status=first), first, LATER)
    assert reported(elsewhere, "Drifted").status == "False"


def test_a_refresh_that_was_answered_elsewhere_or_withdrawn_ends() -> None:
    asked = cache(view(node("a", "Ready"), refresh="1"))
    answered = replace(view(node("a", "Ready"), refresh="1", refreshed="1"), status=asked)
    assert reported(cache(answered, asked), "Refreshed").reason == "Answered"
    withdrawn = replace(view(node("a", "Ready")), status=asked)
    assert reported(cache(withdrawn, asked), "Refreshed").reason == "Withdrawn"


def test_a_refresh_of_a_model_in_conflict_reports_the_conflict() -> None:
    asked = view(refresh="1")
    seen = replace(asked, conflict=replace(asked.demand, name="older", uid="uid-older"))
    assert kinds(seen) == [WriteStatus]
    assert reported(cache(seen), "Refreshed").reason == "NameConflict"


def test_a_successful_resolution_clears_the_unknown_state_of_a_failed_drift_check() -> None:
    lost = cache(replace(view(node("a", "Ready")), upstream=Upstream("", LOST)))
    asked = recorded_status(RecordResolution(R2, 1, "1"), lost, LATER, 3)
    assert reported(asked, "Drifted").status == "False"
    later = cache(replace(view(node("a", "Ready"), upstream="r2", refresh="1", refreshed="1"), status=asked), asked)
    assert reported(later, "Drifted").status == "False"


def test_a_model_that_follows_its_source_reports_why_it_is_behind() -> None:
    seen = view(node("a", "Ready"), upstream="r3", follows=True, failure=LOST)
    drifted = reported(cache(seen), "Drifted")
    assert drifted.reason == "Following"
    assert "Unreachable: no route to the hub" in drifted.message


def test_the_refreshed_condition_reports_progress_and_result() -> None:
    asked = view(node("a", "Ready"), refresh="1")
    assert reported(cache(asked), "Refreshed").reason == "Asking"
    lost = reported(cache(replace(asked, failure=LOST)), "Refreshed")
    assert (lost.status, lost.reason) == ("False", "Unreachable")
    before = cache(view(node("a", "Ready")))
    same = recorded_status(RecordResolution(R2, 1, "1"), before, LATER, 3)
    assert (reported(same, "Refreshed").status, reported(same, "Refreshed").reason) == ("True", "Unchanged")
    other = recorded_status(RecordResolution(R3, 2, "1"), before, LATER, 3)
    assert reported(other, "Refreshed").reason == "NewRevision"
    assert (other.resolved_revision, other.upstream_revision, other.refreshed) == ("r3", "r3", "1")
    kept = cache(view(node("a", "Ready"), refresh="1", refreshed="1"), same, LATER)
    assert reported(kept, "Refreshed") == reported(same, "Refreshed")


def test_a_model_stays_ready_with_the_old_revision_while_the_new_one_does_not_fit() -> None:
    seen = view(serving("a", "Failed", **NO_ROOM), serving("b", "Ready"), serving="r1")
    status = cache(seen)
    assert ready(status) == ("True", "Stocked")
    assert (status.storage_status, status.serving_revision, status.ready) == ("Ready", "r1", "2/2")
    assert status.node_status == {"a": "ready", "b": "ready"}
    assert status.nodes_failed_count == 0
    updating = reported(status, "Updating")
    assert (updating.status, updating.reason) == ("True", "InsufficientStorage")
    assert NO_ROOM["message"] in updating.message
    assert [(n.phase, n.reason, n.revisions) for n in status.nodes] == [
        ("Failed", "InsufficientStorage", ["r1"]),
        ("Ready", "", ["r1"]),
    ]
    done = cache(replace(view(node("a", "Ready"), node("b", "Ready"), serving="r2"), status=status), status, LATER)
    assert (reported(done, "Updating").status, reported(done, "Updating").reason) == ("False", "UpToDate")


def test_a_new_source_that_cannot_be_resolved_leaves_the_old_revision_ready() -> None:
    seen = view(serving("a"), resolution=None, serving="r1", failure=LOST)
    status = cache(seen)
    assert ready(status) == ("True", "Stocked")
    assert reported(status, "Resolved").status == "False"
    assert reported(status, "Updating").reason == "Unreachable"
    assert [(n.phase, n.revision) for n in status.nodes] == [("Ready", "r1")]


def test_a_node_without_the_old_revision_keeps_a_model_from_being_ready() -> None:
    status = cache(view(serving("a", "Ready"), node("b", "Downloading"), serving="r1"))
    assert status.storage_status == "Downloading"
    assert (status.ready, status.node_status) == ("1/2", {"a": "ready", "b": "downloading"})


def test_the_removing_condition_names_the_pods_in_the_way_and_the_removed_bytes() -> None:
    used = PendingRemoval("a", "r0", in_use=True, users=("ns/p1", "ns/p2", "ns/p3", "ns/p4"))
    going = PendingRemoval("b", "r0", done_bytes=3 * 2**30, total_bytes=10 * 2**30)
    seen = view(node("a", "Ready"), node("b", "Ready"), removals=(going, used))
    status = cache(seen)
    removing = reported(status, "Removing")
    assert (removing.status, removing.reason) == ("True", "InUse")
    assert "r0 on a: kept while in use by ns/p1, ns/p2, ns/p3 and 1 more" in removing.message
    assert "r0 on b: 3.0 GiB of at most 10.0 GiB are gone" in removing.message
    assert isinstance(decide(seen, NOW, 600)[-1], Requeue), "the end of a pod does not queue the model"
    gone = cache(replace(view(node("a", "Ready")), status=status), status, LATER)
    assert (reported(gone, "Removing").status, reported(gone, "Removing").reason) == ("False", "Gone")
    deleted = view(deleted_at=STAMP, remaining=("b",), removals=(going,), deleting=True)
    assert "3.0 GiB of at most 10.0 GiB are gone" in report(deleted).message


def test_a_removal_that_waits_for_an_agent_says_so() -> None:
    waiting = PendingRemoval("a", "r0", total_bytes=5, agent_away=True)
    removing = reported(cache(view(node("a", "Ready"), removals=(waiting,))), "Removing")
    assert removing.message == "revision r0 on a: removed once the node has a ready agent again (`larder why node/a`)"


@pytest.mark.parametrize("users", [(), ("ns/p",)])
def test_old_files_in_use_are_reported_even_if_the_pods_are_unknown(users: tuple[str, ...]) -> None:
    removing = reported(
        cache(view(node("a", "Ready"), removals=(PendingRemoval("a", "r0", in_use=True, users=users),))), "Removing"
    )
    assert ("in use by ns/p" if users else "in use by pods on the node") in removing.message


def test_a_model_larger_than_declared_is_reported_until_it_is_corrected() -> None:
    def seen(declared_bytes: int, status: ClusterModelCacheStatus | None = None) -> ClusterModelCacheStatus:
        found = view(node("a", "Ready"), declared_bytes=declared_bytes)
        return cache(replace(found, status=status) if status else found, status)

    larger = reported(seen(R2.size_bytes - 1), "LargerThanDeclared")
    assert (larger.status, larger.reason) == ("True", "ModelSize")
    assert f"({R2.size_bytes} bytes), but spec.modelSize is" in larger.message
    assert all(c.type != "LargerThanDeclared" for declared in (0, R2.size_bytes) for c in seen(declared).conditions)
    for declared, reason in ((R2.size_bytes, "AsDeclared"), (0, "NotDeclared")):
        corrected = reported(seen(declared, seen(1)), "LargerThanDeclared")
        assert (corrected.status, corrected.reason) == ("False", reason)


REVISIONS = st.sampled_from(["", "r1", "r2", "r3"])
PHASES = st.sampled_from(["", "Pending", "Downloading", "Ready", "Failed", "Repairing"])


@st.composite
def views(draw: st.DrawFn) -> ModelView:
    targets = [
        replace(
            node(name, draw(PHASES), ready=draw(st.booleans()), agent=draw(st.booleans())),
            serving=EntryStatus(id="m", revision="r1", phase=old) if (old := draw(PHASES)) else None,
        )
        for name in ("a", "b")
    ]
    resolution = draw(st.sampled_from([None, R2, R3]))
    found = draw(st.sampled_from([None, ResolverAnswer(R2), ResolverAnswer(R3, "1"), ResolverAnswer(R2, "2")]))
    return view(
        *targets,
        resolution=resolution,
        serving=draw(REVISIONS),
        refresh=draw(st.sampled_from(["", "1", "2"])),
        refreshed=draw(st.sampled_from(["", "1", "2"])),
        follows=draw(st.booleans()),
        upstream=draw(REVISIONS),
        answer=found,
        highest_number=draw(st.integers(0, 3)),
    )


@given(views())
def test_a_recorded_answer_is_not_recorded_again_and_ends_its_refresh(seen: ModelView) -> None:
    """A recorded answer is not recorded again, and ends the drift and the refresh that it answers."""
    for action in decide(seen, NOW, 600):
        if not isinstance(action, RecordResolution) or seen.answer is None:
            continue
        before = ClusterModelCacheStatus(refreshed=seen.demand.refreshed)
        status = recorded_status(action, before, STAMP, 1)
        demand = replace(
            seen.demand,
            resolution=Resolution(status.source, status.resolved_revision, status.manifest_digest, status.size, 4),
            upstream=status.upstream_revision,
            refreshed=status.refreshed,
            number=status.resolution_number,
        )
        after = replace(seen, demand=demand, highest_number=max(seen.highest_number, demand.number))
        assert not any(isinstance(a, RecordResolution) for a in decide(after, NOW, 600))
        assert not after.is_drifted
        assert demand.number >= seen.demand.number
        if seen.answer.refresh == demand.refresh:
            assert not demand.refresh_pending


@given(views())
def test_pods_get_another_revision_only_once_a_live_node_is_ready_with_it(seen: ModelView) -> None:
    after, serving = report(seen), seen.demand.serving
    status = cache_status(seen, after, ClusterModelCacheStatus(), STAMP)
    if serving and after.serving != serving:
        live = [n for n in seen.nodes if n.ready and n.agent_ready and n.status and n.status.phase == "Ready"]
        assert live
    assert status.nodes_ready_count <= status.nodes_total
    assert set(after.failed).isdisjoint(after.ready)
