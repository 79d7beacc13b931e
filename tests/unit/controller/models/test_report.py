"""The status of a model, with the exact messages."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from controller.manager.actions import AddFinalizer, RemoveFinalizer, Requeue, Resolve
from controller.models.decide import DiscardAnswer, RecordResolution, WriteStatus, decide
from controller.models.report import report
from controller.models.view import ModelView, Obstacle, ResolverAnswer, TargetNode
from controller.placement.demand import Resolution
from shared.api.model_node import EntryStatus
from tests.builders.models import LATER, NOW, R2, STAMP, base, cache, node, ready, view


def test_a_source_that_is_not_allowed_is_reported_and_not_queried() -> None:
    refused = view(resolution=None, refused="hf://o/m@main is not among", has_finalizer=False)
    (reported,) = decide(refused, NOW, 600)
    assert isinstance(reported, WriteStatus)
    assert (reported.report.overall, reported.report.reason) == ("Failed", "SourceNotAllowed")
    assert reported.report.message.startswith("hf://o/m@main is not among")
    assert (reported.report.resolved, reported.report.resolved_reason) == (False, "SourceNotAllowed")


def test_a_cache_is_ready_when_every_ready_node_has_it() -> None:
    status = cache(view(node("a", "Ready"), node("b", "Ready"), node("lost", "Ready", ready=False)))
    assert status.storage_status == "Ready"
    assert status.node_status == {"a": "ready", "b": "ready", "lost": "notReady"}
    assert (status.ready, status.nodes_total, status.nodes_ready_count) == ("2/3", 3, 2)
    assert (status.serving_revision, status.manifest_digest, status.size) == ("r2", "d" * 64, 1000)


def test_a_base_model_is_ready_with_its_first_node_and_a_cache_with_all() -> None:
    nodes = (node("a", "Ready"), node("b", "Downloading"))
    assert base(view(*nodes)).state == "Ready"
    assert base(view(*nodes)).nodes_ready == ["a"]
    assert cache(view(*nodes)).storage_status == "Downloading"


def test_a_base_model_without_a_ready_node_is_failed_by_a_failed_one() -> None:
    failed = node("a", "Failed", reason="DigestMismatch", message="'f': expected x, got y")
    assert base(view(failed, node("b", "Downloading"))).state == "Failed"
    assert base(view(node("b", "Downloading"))).state == "In_Transit"
    assert base(view(failed)).nodes_failed == ["a"]


def test_one_failed_node_is_named_with_its_reason() -> None:
    failed = node("b", "Failed", reason="InsufficientStorage", message="need 5, have 3, limit 4")
    status = cache(view(node("a", "Ready"), failed))
    assert status.storage_status == "Failed"
    assert ready(status) == ("False", "InsufficientStorage")
    condition = next(c for c in status.conditions if c.type == "Ready")
    assert "1 of 2 nodes have it" in condition.message
    assert "b: InsufficientStorage: need 5, have 3, limit 4" in condition.message
    assert cache(view(failed, node("c", "Downloading"))).storage_status == "Downloading"


def test_no_nodes_and_only_lost_nodes_are_distinguished() -> None:
    assert ready(cache(view(groups=("gpus",)))) == ("False", "NoNodes")
    assert ready(cache(view(node("a", ready=False)))) == ("False", "NodesNotReady")


@pytest.mark.parametrize(
    ("seen", "state", "reason"),
    [
        (view(resolution=None, invalid="ftp:// is not served", uri=""), "Failed", "InvalidURI"),
        (view(disabled=True), "Pending", "Disabled"),
        (view(resolution=None, on_claim=True), "Pending", "OnClaim"),
        (view(resolution=None), "Pending", "Resolving"),
        (view(resolution=None, failure=Obstacle("Unreachable", "no route", True)), "Pending", "Unreachable"),  # noqa: FBT003 - retryable
        (view(resolution=None, failure=Obstacle("SourceNotFound", "gone", False)), "Failed", "SourceNotFound"),  # noqa: FBT003 - as above
    ],
)
def test_the_reason_why_a_model_is_on_no_node_is_reported(seen: ModelView, state: str, reason: str) -> None:
    status = cache(seen)
    assert (status.storage_status, ready(status)) == (state, ("False", reason))


def test_a_conflict_names_the_other_object_and_its_source() -> None:
    seen = view(node("a", "Ready"))
    other = replace(seen.demand, kind="ClusterBaseModel", uid="u0", uri="s3://b/p")
    status = cache(replace(seen, conflict=other, nodes=()))
    assert ready(status) == ("False", "NameConflict")
    message = next(c.message for c in status.conditions if c.type == "Ready")
    assert "ClusterBaseModel m" in message
    assert "s3://b/p" in message


def test_progress_is_reported_in_coarse_steps_and_never_full_before_it_is() -> None:
    reported = EntryStatus(id="m", revision="r2", phase="Downloading")
    (state,) = cache(view(TargetNode("a", True, True, reported, 437, 1000))).nodes  # noqa: FBT003 - ready, with an agent
    assert (state.phase, state.percent) == ("Downloading", 40)
    (state,) = cache(view(TargetNode("a", True, True, reported, 1000, 1000))).nodes  # noqa: FBT003 - as above
    assert state.percent == 99


def test_beyond_a_hundred_nodes_those_that_need_attention_are_listed() -> None:
    nodes = [node(f"n{i:04}", "Ready") for i in range(500)] + [node("zz", "Failed", reason="StoreFailure")]
    status = cache(view(*nodes))
    assert (len(status.nodes), len(status.node_status)) == (100, 100)
    assert status.nodes[0].name == "zz"
    assert status.ready == "500/501"


def test_every_list_of_nodes_is_capped_and_the_counts_are_not() -> None:
    many = [node(f"r{i:04}", "Ready") for i in range(150)] + [
        node(f"f{i:04}", "Failed", reason="StoreFailure", message="m" * 2000) for i in range(150)
    ]
    waiting = [node(f"a{i:04}", "Waiting") for i in range(150)]
    status = base(view(*waiting, *many))
    lists = (status.nodes, status.node_status, status.nodes_ready, status.nodes_failed)
    assert [len(listed) for listed in lists] == [100] * 4
    assert (status.nodes_total, status.nodes_ready_count, status.nodes_failed_count) == (450, 150, 150)
    assert {n.phase for n in status.nodes} == {"Failed"}, "failing nodes come before those that are downloading"
    few = base(view(*[node(f"r{i:04}", "Ready") for i in range(100)]))
    assert (len(few.nodes), len(few.nodes_ready)) == (100, 100)


def test_messages_stay_short_however_many_nodes_fail() -> None:
    failed = [node(f"f{i:04}", "Failed", reason="StoreFailure", message="m" * 2000) for i in range(5000)]
    for condition in cache(view(*failed, deleted_at=STAMP, remaining=tuple(n.name for n in failed))).conditions:
        assert len(condition.message) <= 1024
    assert len(msgspec.json.encode(base(view(*failed)))) < 2**19


def test_a_condition_keeps_its_time_while_its_status_is_unchanged() -> None:
    first = cache(view(node("a", "Downloading")))
    second = cache(view(node("a", "Pending")), first, LATER)
    third = cache(view(node("a", "Ready")), second, LATER)
    times = [next(c.last_transition_time for c in s.conditions if c.type == "Ready") for s in (first, second, third)]
    assert times == [STAMP, STAMP, LATER]


def test_the_serving_revision_changes_once_every_live_node_has_the_new_one() -> None:
    old = EntryStatus(id="m", revision="r1", phase="Ready")

    def holding(name: str, phase: str = "", **fields: Any) -> TargetNode:
        return replace(node(name, phase, **fields), serving=old)

    assert report(view(holding("a", "Downloading"), serving="r1")).serving == "r1"
    assert report(view(holding("a", "Ready"), holding("b", "Downloading"), serving="r1")).serving == "r1"
    assert report(view(node("a", "Ready"), holding("b", "Downloading"), serving="r1")).serving == "r1"
    assert report(view(holding("a", "Ready"), holding("b", ready=False), serving="r1")).serving == "r2"
    assert report(view(node("a", "Ready"), node("b", "Ready"), serving="r1")).serving == "r2"
    assert report(view(serving="r1")).serving == "r2", "the next node will only have r2"
    assert report(view(node("a"), serving="")).serving == "r2"
    assert report(view(node("a", "Downloading"), serving="r1")).serving == "r1"
    assert report(view(node("a", "Ready"), node("b", "Downloading"), serving="r1")).serving == "r2", "no node has r1"
    assert report(view(resolution=None, serving="r1")).serving == "r1"


def kinds(seen: ModelView) -> list[type]:
    return [type(action) for action in decide(seen, NOW, 600)]


def test_a_new_model_gets_a_finalizer_a_resolution_and_a_status() -> None:
    assert kinds(view(resolution=None, has_finalizer=False)) == [AddFinalizer, Resolve, WriteStatus]
    assert kinds(view(resolution=None)) == [Resolve, WriteStatus]
    assert kinds(view(resolution=None, may_resolve=False)) == [WriteStatus]
    assert kinds(view(node("a", "Ready"))) == [WriteStatus]


def test_a_model_that_no_node_holds_needs_no_finalizer() -> None:
    assert kinds(view(resolution=None, on_claim=True, has_finalizer=False)) == [WriteStatus]
    assert kinds(view(disabled=True, has_finalizer=False)) == [WriteStatus]


def test_a_vendors_model_is_left_alone() -> None:
    assert decide(view(resolution=None, foreign=True, uri="", has_finalizer=False), NOW, 600) == []


def test_an_existing_resolution_is_recorded_without_asking_the_source() -> None:
    kept = Resolution("hf://o/m@main", "r1", "e" * 64, 5)
    assert decide(view(resolution=None, existing=kept), NOW, 600) == [RecordResolution(kept)]


def test_an_answer_is_recorded_once_and_before_anything_else() -> None:
    moved = node("a", "Failed", reason="SourceChanged", message="the ETag is another")
    found = replace(R2, revision="r3")
    answer = ResolverAnswer(found)
    assert decide(view(moved, answer=answer), NOW, 600) == [RecordResolution(found, number=1)]
    assert kinds(view(moved, resolution=found, answer=answer)) == [DiscardAnswer, Resolve, WriteStatus]
    assert kinds(view(disabled=True, answer=answer)) == [WriteStatus]


def test_a_changed_source_is_resolved_again_when_a_resolution_is_allowed() -> None:
    moved = node("a", "Failed", reason="SourceChanged", message="the ETag is another")
    assert kinds(view(moved)) == [Resolve, WriteStatus]
    assert kinds(view(moved, may_resolve=False)) == [WriteStatus]


def test_a_conflict_resolves_nothing() -> None:
    seen = view(resolution=None)
    assert kinds(replace(seen, conflict=replace(seen.demand, uid="u0"))) == [WriteStatus]


def test_deletion_waits_a_limited_time_for_the_nodes() -> None:
    deleted: dict[str, Any] = {"deleted_at": STAMP, "remaining": ("a", "b")}
    waiting = decide(view(node("a", "Ready"), **deleted), NOW, 600)
    assert [type(a) for a in waiting] == [WriteStatus, Requeue]
    assert isinstance(waiting[0], WriteStatus)
    assert waiting[0].report.overall == "Deleting"
    assert waiting[1] == Requeue(600)
    assert decide(view(**(deleted | {"remaining": ()})), NOW, 600) == [RemoveFinalizer()]
    assert decide(view(**deleted), NOW + timedelta(seconds=600), 600) == [RemoveFinalizer()]
    assert decide(view(**deleted, has_finalizer=False), NOW, 600) == []


def test_a_model_stays_while_its_users_are_unknown() -> None:
    deleted: dict[str, Any] = {"deleted_at": STAMP, "users_problem": "500: conversion webhook failed"}
    write, again = decide(view(**deleted), NOW + timedelta(seconds=600), 600)
    assert isinstance(write, WriteStatus)
    assert (write.report.reason, again) == ("UsersUnknown", Requeue(10))
    assert "conversion webhook failed" in write.report.message


def evicted(name: str, phase: str = "Absent") -> TargetNode:
    return node(name, phase, reason="Evicted", message="evicted since noon to make room for new")


def test_a_model_that_some_nodes_evicted_is_ready_and_reported_as_partly_evicted() -> None:
    status = cache(view(node("a", "Ready"), evicted("b"), evicted("c", "Draining")))
    assert (status.storage_status, ready(status)) == ("Ready", ("True", "PartlyEvicted"))
    assert (status.ready, status.node_status["b"], status.node_status["c"]) == ("1/3", "evicted", "evicted")
    message = next(c.message for c in status.conditions if c.type == "Ready")
    assert message == "1 of 3 nodes have it (2 Evicted)"
    assert base(view(node("a", "Ready"), evicted("b"))).state == "Ready"


def test_a_model_evicted_from_all_nodes_is_not_ready() -> None:
    status = cache(view(evicted("a"), node("b", "Ready", ready=False)))
    assert (status.storage_status, ready(status)) == ("Pending", ("False", "Evicted"))
    assert "to make room for new" in next(c.message for c in status.conditions if c.type == "Ready")


def test_a_cache_evicted_from_one_node_still_waits_for_the_others() -> None:
    assert cache(view(node("a", "Ready"), evicted("b"), node("c", "Downloading"))).storage_status == "Downloading"


def test_the_serving_revision_changes_although_one_node_evicted_the_model() -> None:
    assert report(view(node("a", "Ready"), evicted("b"), serving="r1")).serving == "r2"


def test_a_node_with_too_many_models_of_the_namespace_is_named_and_counts_as_failed() -> None:
    full = Obstacle("TooManyModels", "namespace team has 500 models", retryable=True)
    crowded = TargetNode("a", ready=True, agent_ready=True, status=None, obstacle=full)
    found = report(view(crowded))
    assert (found.overall, found.reason, found.failed) == ("Failed", "TooManyModels", ("a",))
    assert "a: TooManyModels: namespace team has 500 models" in found.message


def test_a_refusing_source_is_reported_alike_in_every_phase_of_an_attempt() -> None:
    phrase = "503 (attempt 3; the next is at 12:00:08 UTC)"
    found = [
        report(view(node("a", phase, reason="Unreachable", message=phrase, attempts=3)))
        for phase in ("Failed", "Pending", "Waiting", "Downloading")
    ]
    assert {(r.overall, r.reason, r.message, r.failed) for r in found} == {
        ("Failed", "Unreachable", f"0 of 1 nodes have it (1 Failed); a: Unreachable: {phrase}", ("a",))
    }
    assert report(view(node("a", "Downloading"))).overall == "Downloading"
    assert report(view(node("a", "Downloading", reason="Unreachable"))).overall == "Downloading"
