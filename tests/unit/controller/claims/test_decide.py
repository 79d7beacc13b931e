"""The actions and reports in each state of a claim and of its Job."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.claims.decide import StartJob, WriteClaimStatus, decide
from controller.claims.outcome import BLOCKING_REASONS
from controller.claims.result import takes_pods
from controller.claims.status import claim_status
from controller.claims.view import ClaimView
from controller.jobs.observed_jobs import ContainerState, Waiting
from controller.manager.actions import Requeue, WriteSpec
from controller.manager.conditions import ConditionUpdate
from shared.api.base_model import BaseModelStatus
from shared.api.core import ObservedCondition
from shared.api.meta import Condition
from shared.metadata.reading.termination_message import Reading
from tests.builders.claims import (
    FILLED,
    LLAMA,
    NOW,
    WRITTEN,
    after,
    claim,
    handed_in,
    job,
    job_pod,
    read,
    reported,
    user,
)
from tests.builders.claims import view as model

MISSING = Reading(found=False, reason="PathNotFound", message="there is no 'models/llama' on the claim")
EMPTY = Reading(reason="MetadataMissing", message="config.json: is not there")
LATE = ObservedCondition(type="Failed", status="True", reason="DeadlineExceeded")
IMAGE = job_pod("Pending", ContainerState(waiting=Waiting(reason="ImagePullBackOff", message="no such image")))


def ready(seen: ClaimView) -> tuple[str, str, str]:
    write = reported(decide(seen, NOW))
    return write.claim_result.state, write.claim_result.ready.status, write.claim_result.ready.reason


def takes(seen: ClaimView) -> bool:
    """Return whether admission accepts a pod with the reported status."""
    return takes_pods(reported(decide(seen, NOW)).claim_result.ready)


def metadata(seen: ClaimView) -> tuple[str, str]:
    found = reported(decide(seen, NOW)).claim_result.metadata
    return found.status, found.reason


def starts(seen: ClaimView) -> list[StartJob]:
    return [a for a in decide(seen, NOW) if isinstance(a, StartJob)]


@pytest.mark.parametrize(
    ("fields", "reason", "phrase"),
    [
        ({"claim": None}, "PVCNotFound", "PVC data not found in namespace team"),
        ({"claim": claim("Pending")}, "PVCNotBound", "PVC data not bound (phase: Pending)"),
        ({"claim": claim("")}, "PVCNotBound", "PVC data not bound (phase: Pending)"),
        ({"claim": claim("Lost")}, "PVCLost", "PVC data lost its volume pv-1 (phase: Lost)"),
        ({"claim": claim(deletion_timestamp="2026-01-01T00:00:00Z")}, "PVCDeleting", "PVC data is being deleted"),
        ({"claim": claim(volume_mode="Block")}, "PVCNotMountable", "PVC data is a block device"),
        ({"allowed": False}, "NamespaceNotAllowed", "label namespace team larder.dev/allow-cluster-models=true"),
    ],
)
def test_a_claim_that_cannot_be_used_is_failed_and_not_read(fields: dict[str, Any], reason: str, phrase: str) -> None:
    seen = model(**fields)
    assert ready(seen) == ("Failed", "False", reason)
    assert phrase in reported(decide(seen, NOW)).claim_result.ready.message
    assert starts(seen) == []
    assert not takes(seen)
    assert ready(after(replace(seen, claim=claim(), allowed=True)))[0] == "In_Transit"


def test_the_message_about_a_missing_claim_has_the_form_of_the_uri() -> None:
    """OME's two forms are easily confused: in a BaseModel, `pvc://a/b/c` is `b/c` on claim `a`."""
    seen = model(claim=None)
    told = reported(decide(seen, NOW)).claim_result.ready.message
    assert told.endswith("create it, or correct storageUri (pvc://NAMESPACE/CLAIM/SUB-PATH)")
    namespaced = replace(seen, demand=replace(seen.demand, kind="BaseModel", namespace="team"))
    told = reported(decide(namespaced, NOW)).claim_result.ready.message
    assert told.endswith("create it, or correct storageUri (pvc://CLAIM/SUB-PATH)")


def test_an_unbound_wait_for_first_consumer_claim_gets_a_job_and_admits_the_first_pod() -> None:
    seen = model(claim=claim("Pending", volume=""), waits_for_consumer=True)
    assert ready(seen) == ("In_Transit", "False", "WaitForFirstConsumer")
    assert len(starts(seen)) == 1
    assert takes(seen), "if the Job finds no node, a pod has to bind the claim"
    bound = replace(seen, claim=claim(), waits_for_consumer=False, job=job())
    assert ready(bound) == ("In_Transit", "False", "Reading")
    assert not takes(bound), "the claim is read after the first pod"
    skipped = replace(seen, skip=True)
    assert ready(skipped) == ("In_Transit", "False", "WaitForFirstConsumer")
    assert starts(skipped) == []
    written = replace(seen, spec=WRITTEN)
    assert starts(written) == []
    for unread in (skipped, written):
        assert reported(decide(unread, NOW)).claim_result.ready.message.endswith("waits for the first pod that uses it")


def test_pods_wait_while_the_controller_may_not_read_the_claim() -> None:
    seen = model(claim=None, refused="403 Forbidden: cannot get persistentvolumeclaims")
    assert ready(seen) == ("In_Transit", "Unknown", "NotPermitted")
    assert "persistentvolumeclaims" in reported(decide(seen, NOW)).claim_result.ready.message
    assert not takes(seen)
    (again,) = (a.after_s for a in decide(seen, NOW) if isinstance(a, Requeue))
    assert again <= 60, "there is no signal when the permission is granted"


def test_a_lost_permission_does_not_block_pods_of_a_model_already_read() -> None:
    seen = replace(read(model()), claim=None, refused="403 Forbidden: cannot get persistentvolumeclaims")
    assert ready(seen) == ("Ready", "True", "NotPermitted")
    assert "persistentvolumeclaims" in reported(decide(seen, NOW)).claim_result.ready.message
    assert takes(seen)
    moved = replace(seen, demand=replace(seen.demand, uri="pvc://team/data/models/other"))
    assert not takes(moved)
    assert not takes(replace(read(model(), MISSING), claim=None, refused="403"))


def test_a_model_is_read_once_and_then_ready() -> None:
    fresh = model()
    assert len(starts(fresh)) == 1
    assert ready(fresh) == ("In_Transit", "False", "Reading")
    running = replace(fresh, job=job())
    assert starts(running) == []
    done = replace(running, pods=(handed_in(Reading(metadata=LLAMA)),))
    fill, write, again = decide(done, NOW)
    assert fill == WriteSpec(FILLED)
    assert isinstance(write, WriteClaimStatus)
    assert isinstance(again, Requeue)
    assert ready(done) == ("Ready", "True", "OnClaim")
    settled = replace(after(done), spec=FILLED)
    assert [type(a) for a in decide(settled, NOW)] == [WriteClaimStatus, Requeue]
    assert metadata(settled) == ("True", "Read")
    assert claim_status(settled, reported(decide(settled, NOW)), "later") == settled.status


def test_ignored_files_are_reported_with_the_result() -> None:
    seen = read(model(), Reading(metadata=LLAMA, message="llama/notes is a dangling link"))
    assert metadata(seen) == ("True", "Read")
    phrase = reported(decide(seen, NOW)).claim_result.metadata.message
    assert phrase.endswith(", but llama/notes is a dangling link")


def test_fields_that_got_lost_are_filled_again_from_the_status() -> None:
    settled = replace(read(model()), spec={"modelType": "mine"})
    assert decide(settled, NOW)[0] == WriteSpec({k: v for k, v in FILLED.items() if k != "modelType"})


@pytest.mark.parametrize(("fields", "reason"), [({"skip": True}, "Skipped"), ({"spec": WRITTEN}, "Written")])
def test_a_bound_claim_that_need_not_be_read_is_ready(fields: dict[str, Any], reason: str) -> None:
    seen = model(**fields)
    assert ready(seen) == ("Ready", "True", "OnClaim")
    assert metadata(seen)[1] == reason
    assert starts(seen) == []


def test_a_path_that_is_missing_keeps_pods_away_until_it_is_there() -> None:
    seen = read(model(), MISSING)
    assert ready(seen) == ("Failed", "False", "PathNotFound")
    assert not takes(seen)
    later = replace(seen, job=job())
    write = reported(decide(later, NOW + timedelta(minutes=15)))
    assert write.claim_result.state == "Failed"
    found = replace(later, pods=(handed_in(Reading(metadata=LLAMA)),))
    assert reported(decide(found, NOW + timedelta(minutes=15))).claim_result.state == "Ready"


@pytest.mark.parametrize("reason", ["MetadataMissing", "MetadataOversized", "Unreadable", "TooManyFiles"])
def test_a_model_that_cannot_be_read_can_still_be_mounted(reason: str) -> None:
    seen = read(model(), Reading(reason=reason, message="words"))
    assert ready(seen) == ("Ready", "True", "OnClaim")
    assert metadata(seen) == ("False", reason)
    assert "larder.dev/refresh" in reported(decide(seen, NOW)).claim_result.metadata.message


def test_metadata_stays_known_when_a_later_reading_fails() -> None:
    seen = read(model())
    asked = replace(seen, demand=replace(seen.demand, refresh="1"))
    assert ready(asked) == ("Ready", "True", "OnClaim")
    failed = read(asked, EMPTY)
    assert failed.status.metadata
    assert failed.status.metadata.values["modelType"] == "llama"
    assert (ready(failed)[0], metadata(failed)) == ("Ready", ("False", "MetadataMissing"))


def test_fields_read_from_an_earlier_claim_are_removed_if_the_present_one_cannot_be_read() -> None:
    seen = replace(read(model()), spec={**FILLED, "vendor": "v", "modelType": "mine"})
    moved = replace(seen, claim=claim(uid="claim-2"), job=job(), pods=(handed_in(EMPTY),))
    (write, *_) = decide(moved, NOW)
    assert isinstance(write, WriteSpec)
    assert set(write.fields) == set(FILLED) - {"modelType"}
    assert set(write.fields.values()) == {None}


def test_a_model_whose_path_is_missing_is_ready_when_the_user_skips_reading() -> None:
    seen = replace(read(model(), MISSING), skip=True)
    assert ready(seen) == ("Ready", "True", "OnClaim")


def test_a_job_that_hangs_is_reported_and_its_reason_kept_when_it_is_abandoned() -> None:
    hung = model(job=job(), pods=(IMAGE,))
    assert ready(hung) == ("In_Transit", "False", "ImageNotPulled")
    assert not takes(hung)
    given_up = replace(after(hung), job=job(LATE))
    assert (ready(given_up), metadata(given_up)) == (
        ("In_Transit", "False", "ImageNotPulled"),
        ("False", "ImageNotPulled"),
    )
    assert "gave up" in reported(decide(given_up, NOW)).claim_result.metadata.message
    assert not takes(given_up)


def test_an_unchecked_model_is_never_usable_however_often_its_job_gives_up() -> None:
    seen, now = after(replace(model(), job=job(LATE))), NOW
    for wait_minutes in (1, 2, 4, 8, 15, 15):
        assert ready(seen) == ("In_Transit", "False", "DeadlineExceeded")
        assert not takes(seen)
        assert "so pods wait" in reported(decide(seen, now)).claim_result.ready.message
        assert starts(seen) == []
        now += timedelta(minutes=wait_minutes)
        assert [a for a in decide(seen, now) if isinstance(a, StartJob)]
        assert reported(decide(seen, now)).claim_result.ready.reason == "DeadlineExceeded", (
            "the reason is the same while a Job tries again"
        )
        seen = after(replace(seen, job=job(LATE)), now)
    assert ready(read(seen, now=now + timedelta(minutes=15))) == ("Ready", "True", "OnClaim")


def test_a_job_that_ended_after_finding_the_model_leaves_it_usable() -> None:
    early = handed_in(Reading(reason="Unfinished", message="it is being read"), "Failed")
    seen = after(replace(model(), job=job(LATE), pods=(early,)))
    assert (ready(seen), metadata(seen)) == (("Ready", "True", "OnClaim"), ("False", "DeadlineExceeded"))


def test_a_later_job_that_fails_does_not_change_whether_the_model_was_found() -> None:
    seen = read(model())
    asked = replace(seen, demand=replace(seen.demand, refresh="1"))
    assert ready(after(replace(asked, job=job(LATE))))[0] == "Ready"
    gone = read(model(), MISSING)
    late = after(replace(gone, job=job(LATE)), NOW + timedelta(minutes=15))
    assert ready(late)[0] == "Failed", "no Job has found the path since"


def test_a_model_is_ready_without_a_reading_when_the_user_skips_it_or_wrote_every_field() -> None:
    given_up = after(replace(model(), job=job(LATE)))
    for seen in (replace(given_up, skip=True), replace(given_up, spec=WRITTEN)):
        assert ready(seen) == ("Ready", "True", "OnClaim")


@pytest.mark.parametrize("reason", BLOCKING_REASONS)
def test_pods_wait_while_the_first_reading_is_blocked(reason: str) -> None:
    late = after(replace(model(), status=with_metadata(reason), job=job(LATE)))
    assert ready(late) == ("In_Transit", "False", reason)
    assert not takes(late)


def with_metadata(reason: str) -> BaseModelStatus:
    """A status that reports this reason for a running Job."""
    reported = Condition(type="Metadata", status="Unknown", reason=reason, message="m", last_transition_time="t")
    return BaseModelStatus(conditions=[reported])


def test_a_refused_job_is_reported_with_the_server_s_message() -> None:
    seen = model(job_refused="403 Forbidden: exceeded quota: jobs")
    assert starts(seen) == []
    assert ready(seen) == ("In_Transit", "False", "JobRefused")
    assert "exceeded quota" in reported(decide(seen, NOW)).claim_result.ready.message


def test_a_read_write_once_pod_claim_is_not_read_while_a_pod_uses_it() -> None:
    busy = model(claim=claim("Bound", "ReadWriteOncePod"), users=(user("web"),))
    assert starts(busy) == []
    assert ready(busy) == ("In_Transit", "False", "ClaimInUse")
    assert "in use by pod web" in reported(decide(busy, NOW)).claim_result.ready.message
    assert starts(replace(busy, users=()))


def test_a_claim_for_one_node_is_read_on_the_node_that_has_it() -> None:
    once = claim("Bound", "ReadWriteOnce")
    (start,) = starts(model(claim=once, users=(user(node="n7"),)))
    assert start.holder
    assert start.holder.spec.node_name == "n7"
    (start,) = starts(model(claim=once))
    assert start.holder is None
    (start,) = starts(model(claim=claim("Bound", "ReadWriteOnce", "ReadWriteMany"), users=(user(node="n7"),)))
    assert start.holder is None


def test_a_claim_held_elsewhere_is_reported() -> None:
    pod = job_pod("Pending", None, ObservedCondition(type="PodScheduled", status="False", message="0/3 nodes"))
    seen = model(claim=claim("Bound", "ReadWriteOnce"), users=(user("web", "n7"),), job=job(), pods=(pod,))
    assert ready(seen)[2] == "ClaimInUse"
    phrase = reported(decide(seen, NOW)).claim_result.ready.message
    assert "ReadWriteOnce and attached to node n7 for pod web" in phrase
    assert "0/3 nodes" in phrase


def test_labels_of_namespaces_are_checked_more_often() -> None:
    def idle_s(seen: ClaimView, *, requires_label: bool) -> float:
        (found,) = (a.after_s for a in decide(seen, NOW, requires_label=requires_label) if isinstance(a, Requeue))
        return found

    settled, refused = read(model()), model(allowed=False)
    assert idle_s(settled, requires_label=True) < idle_s(settled, requires_label=False)
    assert idle_s(refused, requires_label=True) < idle_s(settled, requires_label=True), "a model waits for the label"


def test_nodes_hold_nothing_once_the_model_is_on_a_claim() -> None:
    kinds = ("Drifted", "Refreshed", "Updating", "Removing")
    long_ago: dict[str, Any] = {"reason": "Before", "message": "", "last_transition_time": "2026-01-01T00:00:00Z"}
    before = [Condition(type=kind, status="True", **long_ago) for kind in (*kinds, "Theirs")]
    seen = model(status=BaseModelStatus(conditions=before))
    found = {c.type: c.status for c in after(seen).status.conditions}
    assert {kind: found[kind] for kind in kinds} == dict.fromkeys(kinds, "False")
    assert found["Theirs"] == "True"
    assert after(after(seen)).status == after(seen).status


def test_conditions_of_others_stay_and_times_only_change_with_the_status() -> None:
    seen = read(model())
    later = claim_status(seen, reported(decide(seen, NOW)), "2030-01-01T00:00:00Z")
    assert later == seen.status
    lost = claim_status(seen, reported(decide(replace(seen, claim=None), NOW)), "2030-01-01T00:00:00Z")
    (stamp,) = {c.last_transition_time for c in lost.conditions if c.type == "Ready"}
    assert stamp == "2030-01-01T00:00:00Z"
    assert lost.metadata == seen.status.metadata


CLAIMS = st.none() | st.builds(
    claim,
    st.sampled_from(["Bound", "Pending", "Lost", ""]),
    st.sampled_from(["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"]),
    uid=st.sampled_from(["claim-1", "claim-2"]),
)
PODS = st.sampled_from(
    [(), (IMAGE,), (handed_in(Reading(metadata=LLAMA)),), (handed_in(MISSING),), (handed_in(EMPTY),)]
)
VIEWS = st.builds(
    model,
    claim=CLAIMS,
    allowed=st.booleans(),
    skip=st.booleans(),
    spec=st.sampled_from([{}, WRITTEN, FILLED]),
    refresh=st.sampled_from(["", "1"]),
    refused=st.sampled_from(["", "403"]),
    job_refused=st.sampled_from(["", "403"]),
    waits_for_consumer=st.booleans(),
    users=st.sampled_from([(), (user(),)]),
    job=st.sampled_from([None, job(), job(LATE)]),
    pods=PODS,
    status=st.sampled_from([BaseModelStatus(), read(model()).status, read(model(), MISSING).status]),
)


@given(VIEWS)
def test_a_model_is_usable_only_if_it_was_checked_or_no_check_is_due(seen: ClaimView) -> None:
    kept = reported(decide(seen, NOW)).metadata
    looked = kept is not None and not (kept.missing or kept.unchecked)
    unbound = seen.waits_for_consumer and seen.claim is not None and seen.claim.status.phase != "Bound"
    by_us = seen.status.metadata is not None and seen.status.metadata.values
    by_hand = seen.spec == WRITTEN or (seen.spec == FILLED and not by_us)
    no_look_is_due = seen.skip or (by_hand and not (kept and kept.missing))
    assert not takes(seen) or looked or unbound or no_look_is_due


@given(VIEWS)
def test_every_state_is_reported_and_requeued(seen: ClaimView) -> None:
    actions = decide(seen, NOW)
    assert isinstance(actions[-1], Requeue)
    write = reported(actions)
    assert isinstance(write.claim_result.ready, ConditionUpdate)
    assert (write.claim_result.state == "Ready") is (write.claim_result.ready.status == "True")
    assert write.claim_result.ready.message
    assert write.claim_result.metadata.message
    if seen.skip or seen.claim is None or not seen.allowed or seen.refused:
        assert not [a for a in actions if isinstance(a, StartJob)]
    for action in actions:
        if isinstance(action, WriteSpec):
            ours = FILLED if seen.status.metadata else {}
            assert all(seen.spec.get(name) in (None, ours.get(name)) for name in action.fields)


@given(VIEWS)
def test_repeated_reports_are_identical(seen: ClaimView) -> None:
    once = after(seen)
    again = after(once)
    assert after(again).status == again.status
