"""What happens to a ModelCache, from its creation to its removal."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.manager.actions import AddFinalizer, DeleteClaim, RemoveFinalizer, Requeue, Resolve, Withdraw
from controller.modelcaches.actions import (
    Action,
    DeleteCacheVolume,
    DeleteJob,
    ListClaimUsers,
    ProvisionStorage,
    StartDownload,
    WriteCacheStatus,
)
from controller.modelcaches.decide import decide
from controller.modelcaches.download_steps import current_job
from controller.modelcaches.report import status_of
from controller.modelcaches.view import ModelCacheView
from controller.models.view import Obstacle
from controller.provisioning.creation_failure import CreationFailure
from shared.api.core import ClaimRef, PersistentVolume, StatusWithConditions, StorageClass, VolumeSpec
from shared.api.meta import Condition
from shared.api.model_cache import ModelCacheStatus
from shared.download_report import DownloadReport
from shared.kube.objects import Meta
from tests.builders.model_caches import NOW, RESOLVED, STAMP, cache, claim, job, pod, view

READY = ModelCacheStatus(serving_revision="r1", claim_uid="c1", claim="llama", files=3, size=1000)


def actions(seen: ModelCacheView, **later: float) -> list[Action]:
    return decide(seen, NOW + timedelta(**later), 600)


def written(seen: ModelCacheView, **later: float) -> WriteCacheStatus:
    (write,) = (a for a in actions(seen, **later) if isinstance(a, WriteCacheStatus))
    return write


def result(seen: ModelCacheView, **later: float) -> tuple[str, str]:
    write = written(seen, **later)
    return write.state, write.reason


def one(kind: type, seen: ModelCacheView, **later: float) -> Any:
    (found,) = (a for a in actions(seen, **later) if isinstance(a, kind))
    return found


def has(kind: type, seen: ModelCacheView, **later: float) -> bool:
    return any(isinstance(a, kind) for a in actions(seen, **later))


def test_a_new_cache_gets_a_finalizer_and_is_resolved_before_it_gets_a_claim() -> None:
    assert actions(view(has_finalizer=False)) == [AddFinalizer()]
    assert has(Resolve, view(answer=None))
    assert result(view(answer=None)) == ("Pending", "Resolving")
    manifest = one(ProvisionStorage, view()).manifest
    assert (manifest.claim, manifest.volume_names) == ("llama", ())
    assert manifest.size_bytes > RESOLVED.size_bytes
    assert written(view()).fields["manifest_digest"] == RESOLVED.manifest


def test_a_source_that_may_not_be_asked_yet_is_asked_later() -> None:
    seen = view(answer=None, may_resolve=False)
    assert not has(Resolve, seen)
    assert one(Requeue, seen).after_s == 20, "nothing else would wake the cache"


def test_a_source_that_does_not_answer_is_reported_with_its_reason() -> None:
    seen = view(answer=None, failure=Obstacle("AuthDenied", "no", retryable=False), may_resolve=False)
    assert not has(Resolve, seen)
    assert result(seen) == ("Failed", "AuthDenied")
    assert written(seen).is_stalled


def test_a_download_is_started_once_the_claim_exists() -> None:
    seen = view(claim=claim("Pending"), limit_bytes_s=7)
    order = one(StartDownload, seen).order
    assert (order.job, order.claim, order.revision, order.limit_bytes_s) == (current_job(seen), "llama", "r1", 7)
    assert result(seen) == ("pvcCreated", "Starting")
    assert written(seen).fields["job"] == order.job


def test_a_repository_of_a_hub_is_downloaded_at_its_commit() -> None:
    resolved = replace(RESOLVED, uri="hf://o/m@main", revision="abc-0123456789", selection="0123456789")
    seen = view(cache(storage_uri="hf://o/m"), claim=claim(), answer=resolved)
    assert one(StartDownload, seen).order.uri == "hf://o/m@abc-0123456789", "another selection's key is kept"
    plain = replace(RESOLVED, uri="hf://o/m@main", revision="abc")
    assert one(StartDownload, replace(seen, answer=plain)).order.uri == "hf://o/m@abc"


def test_the_progress_of_a_download_is_reported_and_never_decreases() -> None:
    seen = view(claim=claim(), job=job(), pods=(pod("Running"),), percent=35)
    assert result(seen) == ("Downloading", "Downloading")
    assert written(seen).fields["percent"] == 35
    later = view(
        cache(status=ModelCacheStatus(percent=40, job=current_job(seen))),
        claim=claim(),
        job=job(),
        pods=(pod("Running"),),
    )
    assert written(later).fields["percent"] == 40, "a pod without progress does not reset it"


def test_a_complete_download_makes_the_cache_ready_on_the_uid_of_its_claim() -> None:
    seen = view(claim=claim(), job=job("Complete"), pods=(pod("Succeeded", DownloadReport(revision="r1")),))
    assert result(seen) == ("Ready", "Downloaded")
    status = status_of(seen.cache, written(seen), STAMP)
    assert (status.serving_revision, status.claim_uid, status.percent) == ("r1", "c1", 100)
    assert status.printed_size == "1000 B"


def test_a_ready_cache_stays_ready_despite_later_changes_of_source_or_spec() -> None:
    seen = view(cache(status=READY), claim=claim(), answer=None, problems=(("SourceNotAllowed", "no"),))
    assert result(seen) == ("Ready", "Downloaded")
    assert not has(Resolve, seen)


def test_a_claim_deleted_manually_is_recreated_and_refilled() -> None:
    seen = view(cache(status=READY), answer=RESOLVED)
    assert has(ProvisionStorage, seen)
    other = claim()
    other = msgspec.structs.replace(other, metadata=msgspec.structs.replace(other.metadata, uid="c2"))
    again = view(cache(status=READY), claim=other)
    assert has(StartDownload, again)


def test_a_cache_reports_a_terminating_claim_and_waits_for_its_end() -> None:
    found = claim()
    going = msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, deletion_timestamp=STAMP))
    for seen in (view(claim=going), view(cache(status=READY), claim=going)):
        assert written(seen).reason == "ClaimTerminating"
        assert not has(ProvisionStorage, seen)
        assert has(DeleteJob, replace(seen, job=job())), "whose pods keep the claim"


def test_a_foreign_claim_is_left_alone() -> None:
    seen = view(claim=claim(ours=False))
    assert result(seen) == ("Failed", "NameConflict")
    assert not has(StartDownload, seen)


@pytest.mark.parametrize(
    ("reason", "expected"), [("", "ClaimRefused"), ("NameConflict", "NameConflict"), ("NameTooLong", "NameTooLong")]
)
def test_a_refused_claim_is_reported_and_retried(reason: str, expected: str) -> None:
    waiting = view(creation_failure=CreationFailure("told", retry_s=30, reason=reason))
    assert result(waiting) == ("Failed", expected)
    assert not has(ProvisionStorage, waiting)
    assert Requeue(30) in actions(waiting)
    assert has(ProvisionStorage, view(creation_failure=CreationFailure("told", retry_s=0)))


def test_the_place_of_a_queued_claim_is_reported_in_powers_of_two() -> None:
    messages = {position: _queued(position) for position in (None, 1, 700, 1000)}
    assert messages[700] == messages[1000]
    assert messages[700].endswith("among the first 1024 in the queue")
    assert len(set(messages.values())) == 3


def _queued(position: int | None) -> str:
    waiting = view(position=position)
    assert result(waiting) == ("Pending", "Queued")
    return next(action.message for action in actions(waiting) if isinstance(action, WriteCacheStatus))


def failed(reason: str, attempts: int = 0, message: str = "m") -> ModelCacheView:
    report = DownloadReport(reason=reason, message=message)
    found = cache(status=ModelCacheStatus(attempts=attempts))
    return view(found, claim=claim(), job=job("Failed", "BackoffLimitExceeded"), pods=(pod("Failed", report),))


@pytest.mark.parametrize(
    ("reason", "stalled", "pause_s"),
    [("DigestMismatch", False, 15), ("InsufficientStorage", False, 15), ("AuthDenied", True, 900),
     ("SourceNotFound", True, 900)],
)  # fmt: skip
def test_a_failed_download_is_reported_and_retried_after_a_pause(reason: str, stalled: bool, pause_s: float) -> None:  # noqa: FBT001
    seen = failed(reason)
    write = written(seen)
    assert (write.state, write.reason, write.is_stalled, write.fields["attempts"]) == ("Failed", reason, stalled, 1)
    assert Requeue(pause_s) in actions(seen)
    after = view(cache(status=status_of(seen.cache, write, STAMP)), claim=claim())
    assert result(after, seconds=pause_s - 1) == ("Failed", reason), "no Job is created until the pause is over"
    assert not has(StartDownload, after, seconds=pause_s - 1)
    assert one(StartDownload, after, seconds=pause_s + 1).order.job != current_job(seen)


def test_pauses_between_downloads_grow_up_to_a_bound() -> None:
    (first, second, last) = (one(Requeue, failed("Unreachable", attempts)).after_s for attempts in (0, 1, 50))
    assert (first, second, last) == (15, 30, 600)


def test_a_refresh_ends_the_pause_of_a_failed_download() -> None:
    ready = Condition(type="Ready", status="False", reason="AuthDenied", last_transition_time=STAMP)
    found = cache(status=ModelCacheStatus(attempts=1, retry_at="2026-06-01T12:30:00Z", conditions=[ready]))
    assert not has(StartDownload, view(found, claim=claim()))
    asked = msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, annotations={"larder.dev/refresh": "now"})
    )
    assert one(StartDownload, view(asked, claim=claim())).order.job
    assert written(view(asked, claim=claim())).fields["refreshed"] == "now"


def test_another_selection_ends_the_pause_of_a_failed_download() -> None:
    status = status_of(cache(), written(failed("PickleRefused")), STAMP)
    corrected = cache(status=status, allow_patterns=["*.safetensors"])
    listing = view(corrected, claim=claim(), answer=None)
    assert has(Resolve, listing)
    answer = replace(RESOLVED, selection=listing.demand.selection.key)
    listed = cache(status=status_of(corrected, written(listing), STAMP), allow_patterns=["*.safetensors"])
    assert has(StartDownload, view(listed, claim=claim(), answer=answer))


def test_a_corrected_problem_ends_the_pause_of_a_failed_download() -> None:
    status = status_of(cache(), written(failed("AuthDenied")), STAMP)
    refused = view(cache(status=status), claim=claim(), problems=(("SourceNotAllowed", "no"),))
    allowed = view(cache(status=status_of(refused.cache, written(refused), STAMP)), claim=claim())
    assert has(StartDownload, allowed), "the reason would stay until the pause is over"


def test_a_refresh_keeps_the_name_of_a_running_job() -> None:
    found = cache()
    asked = msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, annotations={"larder.dev/refresh": "now"})
    )
    assert current_job(view(asked, claim=claim())) == current_job(view(found, claim=claim()))


@pytest.mark.parametrize("spec", [{"node_selector": {"zone": "b"}}, {"credentials_secret": "hub"}])
def test_a_corrected_spec_gets_another_job(spec: Any) -> None:
    names = {current_job(view(found, claim=claim())) for found in (cache(), cache(**spec))}
    assert len(names) == 2, "the existing one could wait for a node or a Secret until its deadline of six hours"


def test_a_job_for_an_earlier_selection_is_deleted_first() -> None:
    seen = view(claim=claim(), outdated_job=job())
    assert one(DeleteJob, seen).seen == job().metadata
    assert not has(StartDownload, seen)
    assert result(seen) == ("pvcCreated", "Starting")


@pytest.mark.parametrize("which", ["job", "outdated_job"])
def test_no_job_starts_while_the_pods_of_a_deleted_one_may_still_write(which: str) -> None:
    leaving = job()
    leaving = msgspec.structs.replace(
        leaving, metadata=msgspec.structs.replace(leaving.metadata, deletion_timestamp=STAMP)
    )
    found: dict[str, Any] = {which: leaving}
    seen = view(claim=claim(), **found)
    assert result(seen) == ("pvcCreated", "Starting")
    assert not has(StartDownload, seen)
    assert not has(DeleteJob, seen)


def test_a_new_claim_clears_the_pause_of_an_earlier_download() -> None:
    paused = cache(status=ModelCacheStatus(attempts=9, retry_at="2026-06-01T12:30:00Z"))
    assert written(view(paused)).fields["retry_at"] == ""


@pytest.mark.parametrize(("reason", "pause_s"), [("SourceChanged", 15), ("RevisionNotFound", 900)])
def test_a_source_that_moved_is_resolved_again_after_the_pause(reason: str, pause_s: float) -> None:
    status = status_of(cache(), written(failed(reason)), STAMP)
    assert status.source == status.manifest_digest == ""
    seen = view(cache(status=status), claim=claim(), answer=None)
    assert result(seen) == ("Failed", reason), "and not that its files are being listed"
    assert Requeue(pause_s) in actions(seen)
    assert not has(Resolve, seen)
    assert has(Resolve, seen, seconds=pause_s + 1)


def test_a_job_for_another_revision_than_that_of_the_status_fails() -> None:
    moved = view(claim=claim(), job=job("Complete"), pods=(pod("Succeeded", DownloadReport(revision="r2")),))
    assert result(moved) == ("Failed", "SourceChanged")


def test_a_job_with_a_killed_pod_continues() -> None:
    seen = view(claim=claim(), job=job(), pods=(pod("Failed", DownloadReport(reason="Unreachable", message="reset")),))
    assert result(seen) == ("pvcCreated", "Unreachable")
    assert not has(StartDownload, seen)


def test_a_job_that_may_not_be_created_is_reported() -> None:
    seen = view(claim=claim(), job_refused="exceeded quota: count/jobs.batch")
    assert result(seen) == ("Failed", "JobRefused")
    assert "quota" in written(seen).message


def test_a_download_waits_for_a_slot() -> None:
    seen = view(claim=claim(), waits_for="group gpus allows 1")
    assert result(seen) == ("pvcCreated", "WaitingForTurn")
    assert not has(StartDownload, seen)


CLASS = StorageClass(metadata=Meta(name="fast"), provisioner="example.org/disk")


@pytest.mark.parametrize(
    ("fields", "seconds", "reason"),
    [
        ({"storage_class": None}, 0, "StorageClassNotFound"),
        ({"storage_class": CLASS}, 0, "Starting"),
        ({"storage_class": CLASS}, 61, "ClaimNotBound"),
        ({"storage_class": StorageClass(metadata=Meta(), volume_binding_mode="WaitForFirstConsumer")}, 61, "NoPod"),
    ],
)
def test_a_claim_that_gets_no_volume_names_its_class(fields: dict[str, Any], seconds: float, reason: str) -> None:
    seen = view(claim=claim("Pending"), job=job(), **fields)
    write = written(seen, seconds=seconds)
    assert (write.state, write.reason) == ("pvcCreated", reason)
    if reason.startswith(("Storage", "Claim")):
        assert "'fast'" in write.message


@pytest.mark.parametrize("status", [None, READY])
@pytest.mark.parametrize("storage_class", ["fast", ""])
def test_a_claim_that_lost_its_volume_is_reported(status: ModelCacheStatus | None, storage_class: str) -> None:
    lost = claim("Lost", storage_class_name=storage_class)
    write = written(view(cache(status=status), claim=lost, job=job(), storage_class=CLASS), seconds=61)
    assert write.reason == "ClaimLost"
    assert "delete the claim" in write.message


def test_a_missing_default_storage_class_is_reported() -> None:
    write = written(view(claim=claim("Pending", storage_class_name=""), job=job()))
    assert write.reason == "StorageClassNotFound"
    assert "no default" in write.message


def test_a_corrected_class_replaces_a_claim_that_has_no_volume() -> None:
    corrected = cache(pvc_spec={"storageClassName": "other"})
    assert one(DeleteClaim, view(corrected, claim=claim("Pending"))).seen.uid == "c1"
    assert has(DeleteJob, view(corrected, claim=claim("Pending"), job=job()))
    assert not has(DeleteClaim, view(corrected, claim=claim("Bound")))


@pytest.mark.parametrize("spec", [{"accessModes": ["ReadWriteMany"]}, {"resources": {"requests": {"storage": "9Gi"}}}])
def test_any_correction_of_pvc_spec_replaces_a_claim_that_has_no_volume(spec: Any) -> None:
    corrected = cache(pvc_spec=spec)
    assert has(DeleteClaim, view(corrected, claim=claim("Pending")))
    assert not has(DeleteClaim, view(corrected, claim=claim("Bound")))


@pytest.mark.parametrize("spec", [{"pvc_spec": {"storageClassName": "other"}}, {"pv_spec": {"csi": {"driver": "d"}}}])
def test_a_ready_cache_reports_that_a_changed_template_needs_a_new_claim(spec: Any) -> None:
    changed = view(cache(status=READY, **spec), claim=claim())
    assert result(changed) == ("Ready", "Downloaded")
    assert "once the claim is deleted and recreated" in written(changed).message
    assert "pvcSpec" not in written(view(cache(status=READY), claim=claim())).message


@pytest.mark.parametrize("reason", ["SourceNotAllowed", "InvalidTemplate"])
def test_a_download_that_is_no_longer_allowed_is_stopped(reason: str) -> None:
    refused = view(claim=claim(), job=job(), problems=((reason, "no"),))
    assert has(DeleteJob, refused)
    assert result(refused) == ("Failed", reason)
    assert not has(DeleteJob, replace(refused, job=job("Complete"))), "the Job's report is kept"


def test_a_download_whose_secret_is_gone_is_stopped_with_a_remedy() -> None:
    refused = view(claim=claim(), job=job(), pods=(pod("Running"),), secret_refused="Secret s does not exist")
    assert has(DeleteJob, refused)
    assert result(refused) == ("Failed", "JobRefused")
    assert "Secret s does not exist; it continues once" in written(refused).message
    done = replace(refused, job=job("Complete"), pods=(pod("Succeeded", DownloadReport(revision="r1")),))
    assert result(done) == ("Ready", "Downloaded")


@pytest.mark.parametrize(("age_s", "pause_s"), [(1, 5), (100, 25), (1_000_000, 300)])
def test_the_pods_of_a_deleted_cache_in_use_are_listed_less_often_over_time(age_s: int, pause_s: int) -> None:
    used = view(cache(deleted=True, status=READY), claim=claim(), users=("web-1",))
    assert one(Requeue, used, seconds=age_s).after_s == pause_s


def test_an_unbound_claim_of_a_waiting_class_is_reported_once_its_pod_has_a_node() -> None:
    lazy = StorageClass(metadata=Meta(), provisioner="example.org/disk", volume_binding_mode="WaitForFirstConsumer")
    found = claim("Pending")
    placed = msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, annotations={"volume.kubernetes.io/selected-node": "n"})
    )
    seen = view(claim=placed, job=job(), storage_class=lazy)
    assert result(seen, seconds=59)[1] != "ClaimNotBound"
    write = written(seen, seconds=61)
    assert (write.reason, "example.org/disk" in write.message, "on node n" in write.message) == (
        "ClaimNotBound",
        True,
        True,
    )


def test_a_deleted_cache_waits_for_its_users() -> None:
    gone = cache(deleted=True, status=READY)
    assert has(ListClaimUsers, view(gone, claim=claim()))
    used = view(gone, claim=claim(), users=("web-1",))
    assert result(used) == ("Deleting", "InUse")
    assert "web-1" in written(used).message
    assert not has(DeleteClaim, used)


def test_the_job_claim_and_volume_of_an_unused_deleted_cache_are_deleted() -> None:
    gone = cache(deleted=True, status=READY)
    free = view(gone, claim=claim(), job=job(), users=())
    assert has(DeleteJob, free)
    assert has(DeleteClaim, free)
    assert result(free) == ("Deleting", "Deleting")
    volume = view(gone, users=(), volume=_volume())
    assert has(DeleteCacheVolume, volume)
    assert actions(view(gone, users=())) == [RemoveFinalizer()]
    assert has(RemoveFinalizer, free, seconds=601), "a claim that is not deleted does not block the cache forever"


def test_a_deleted_cache_waits_for_what_is_being_created_for_it() -> None:
    seen = view(cache(deleted=True), may_be_created=True, users=())
    assert has(Withdraw, seen)
    assert not has(RemoveFinalizer, seen), "Kubernetes would delete the claim, but not the volume"
    assert result(seen) == ("Deleting", "Deleting")
    assert Requeue(5) in actions(seen)


def test_a_volume_that_larder_created_never_outlasts_its_cache() -> None:
    late = view(cache(deleted=True, status=READY), claim=claim(), volume=_volume(), users=())
    assert not has(DeleteCacheVolume, late), "its claim is deleted first"
    assert actions(late, seconds=601) == [DeleteCacheVolume(_volume().metadata), RemoveFinalizer()]


def _volume() -> Any:
    return PersistentVolume(metadata=Meta(name="llama-team", uid="v1"))


def test_a_volume_of_a_claim_that_is_gone_is_recreated() -> None:
    released = msgspec.structs.replace(_volume(), status=StatusWithConditions(phase="Released"))
    seen = view(volume=released)
    assert one(DeleteCacheVolume, seen).seen == released.metadata
    assert not has(ProvisionStorage, seen)
    assert result(seen) == ("Pending", "Provisioning")
    assert has(ProvisionStorage, view(volume=_volume())), "a volume that waits for its claim is kept"


def test_no_claim_is_created_for_a_volume_that_is_not_released_yet() -> None:
    reserved = VolumeSpec(claim_ref=ClaimRef(namespace="team", name="llama", uid="c1"))
    bound = msgspec.structs.replace(_volume(), spec=reserved, status=StatusWithConditions(phase="Bound"))
    seen = view(volume=bound)
    assert not has(ProvisionStorage, seen), "it would stay Pending, because the volume belongs to the earlier one"
    assert not has(DeleteCacheVolume, seen), "the cached state may lag behind a claim that exists"
    assert result(seen) == ("Pending", "Provisioning")
    assert Requeue(5) in actions(seen)


def test_a_foreign_claim_is_never_deleted() -> None:
    assert actions(view(cache(deleted=True), claim=claim(ours=False), users=())) == [RemoveFinalizer()]


PHASES = st.sampled_from(["Pending", "Bound", "Lost"])
PODS = st.sampled_from([(), (pod("Pending"),), (pod("Running"),), (pod("Succeeded", DownloadReport(revision="r1")),)])


@given(
    phase=PHASES, pods=PODS, has_job=st.booleans(), ours=st.booleans(), deleted=st.booleans(), ready=st.booleans(),
    has_claim=st.booleans(), waits=st.sampled_from(["", "group"]), late=st.integers(0, 1000),
)  # fmt: skip
def test_every_decision_writes_one_status_or_ends_and_leaves_foreign_claims_alone(
    phase: str, pods: Any, has_job: bool, ours: bool, deleted: bool, ready: bool, has_claim: bool, waits: str, late: int  # noqa: FBT001
) -> None:  # fmt: skip
    seen = view(
        cache(deleted=deleted, status=READY if ready else None),
        claim=claim(phase, ours=ours) if has_claim else None,
        job=job() if has_job else None,
        pods=pods,
        waits_for=waits,
        users=(),
    )
    found = actions(seen, seconds=late)
    writes = [a for a in found if isinstance(a, WriteCacheStatus)]
    assert len(writes) == 1 or any(isinstance(a, RemoveFinalizer) for a in found)
    if not ours:
        assert not any(isinstance(a, StartDownload | DeleteClaim) for a in found)
    if waits or (has_job and not deleted):
        assert not any(isinstance(a, StartDownload) for a in found)
