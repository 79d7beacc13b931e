"""The state machine of Models, as in its specification."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tests.builders.models_on_claims as build
from controller.manager.actions import Requeue, Withdraw
from controller.modeloperator.actions import (
    Action,
    DeleteModelJob,
    GrowClaim,
    ProvisionClaim,
    StartModelDownload,
    WriteModelStatus,
)
from controller.modeloperator.decide import IN_PROGRESS, decide
from controller.modeloperator.objects import ModelDownload
from controller.modeloperator.source import wanted_digest
from controller.modeloperator.view import ModelObjectView
from controller.provisioning.creation_failure import CreationFailure
from shared.api.core import StorageClass
from shared.api.model import ModelObjectStatus
from shared.download_report import DownloadReport
from tests.builders.model_caches import pod


def actions(view: ModelObjectView, later: timedelta = timedelta()) -> list[Action]:
    return decide(view, build.NOW + later)


def written(view: ModelObjectView, later: timedelta = timedelta()) -> WriteModelStatus:
    (write,) = (action for action in actions(view, later) if isinstance(action, WriteModelStatus))
    return write


def pause(view: ModelObjectView) -> float:
    return min(action.after_s for action in actions(view) if isinstance(action, Requeue))


def test_a_model_without_a_claim_is_pending_in_the_queue() -> None:
    view = build.view(position=7)
    assert ProvisionClaim() in actions(view)
    found = written(view)
    assert (found.phase, found.reason) == ("Pending", "Queued")
    assert "claim model-llama waits for its turn to be created, among the first 8 in the queue" in found.message


@pytest.mark.parametrize(
    ("message", "reason"),
    [("exceeded quota: storage", "ClaimRefused"), ("claim model-llama exists", "NameConflict")],
)
def test_a_claim_that_is_refused_is_reported_and_retried(message: str, reason: str) -> None:
    kind = reason if reason == "NameConflict" else ""
    waiting = build.view(creation_failure=CreationFailure(message, 30.0, kind))
    assert (written(waiting).phase, written(waiting).reason, pause(waiting)) == ("Pending", reason, 30.0)
    assert ProvisionClaim() not in actions(waiting)
    assert ProvisionClaim() in actions(build.view(creation_failure=CreationFailure(message, 0.0, kind)))


def test_the_download_starts_once_the_claim_exists_and_its_root_is_recorded() -> None:
    first = build.view(build.model(ModelObjectStatus(downloaded="earlier", claim_uid="c0")), claim=build.claim())
    assert not any(isinstance(action, StartModelDownload) for action in actions(first))
    fields = written(first).fields
    assert (fields["root_download"], fields["claim_uid"], fields["downloaded"]) == (first.wanted, "c1", "")
    assert (written(first).phase, pause(first)) == ("Pending", 2.0)
    view = build.view(build.model(build.begun()), claim=build.claim())
    found = actions(view)
    assert StartModelDownload(ModelDownload(view.wanted, "c1", size="20Gi")) in found
    assert (written(view).phase, written(view).message, pause(view)) == ("Downloading", IN_PROGRESS, 10.0)


def test_a_job_that_is_gone_while_downloading_is_recreated() -> None:
    view = build.view(build.model(build.begun(phase="Downloading")), claim=build.claim())
    assert any(isinstance(action, StartModelDownload) for action in actions(view))
    assert pause(view) == 10.0


def test_a_running_job_is_checked_every_fifteen_seconds() -> None:
    view = build.view(claim=build.claim(), job=build.job(), pods=(pod("Running"),), percent=40)
    found = written(view)
    assert (found.phase, found.message, dict(found.fields)) == ("Downloading", IN_PROGRESS, {"progress": 40})
    assert pause(view) == 15.0


def test_a_succeeded_job_makes_the_model_ready() -> None:
    done = pod("Succeeded", DownloadReport(revision="abc"))
    view = build.view(claim=build.claim(), job=build.job("Complete"), pods=(done,))
    found = written(view)
    assert found.phase == "Ready"
    assert found.fields["progress"] == 100
    assert (found.fields["downloaded"], found.fields["revision"]) == (view.wanted, "abc")
    assert pause(view) == 300.0


def test_a_succeeded_job_counts_even_if_its_pods_are_gone() -> None:
    assert written(build.view(claim=build.claim(), job=build.job("Complete"))).phase == "Ready"


def test_a_job_that_failed_waits_for_its_deletion() -> None:
    failed = pod("Failed", DownloadReport(reason="AuthDenied", message="the hub refuses the token"))
    view = build.view(claim=build.claim(), job=build.job("Failed", "BackoffLimitExceeded"), pods=(failed,))
    found = written(view)
    assert (found.phase, found.reason, found.is_stalled, pause(view)) == ("Failed", "AuthDenied", True, 60.0)
    assert "the hub refuses the token; delete Job model-download-llama" in found.message
    assert not any(isinstance(action, DeleteModelJob | StartModelDownload) for action in actions(view))


def test_deleting_the_failed_job_returns_to_pending_and_then_starts_again() -> None:
    view = build.view(build.model(build.begun(phase="Failed")), claim=build.claim())
    assert (written(view).phase, dict(written(view).fields)) == ("Pending", {"progress": 0})
    assert not any(isinstance(action, StartModelDownload) for action in actions(view))
    again = build.view(build.model(build.begun(phase="Pending")), claim=build.claim())
    assert any(isinstance(action, StartModelDownload) for action in actions(again))


def test_a_model_stays_ready_after_its_job_is_deleted() -> None:
    view = build.view(build.model(build.served()), claim=build.claim())
    assert (written(view).phase, pause(view)) == ("Ready", 300.0)
    assert not any(isinstance(action, StartModelDownload) for action in actions(view))


def test_a_deleted_claim_resets_the_model_to_pending() -> None:
    found = written(build.view(build.model(build.served())))
    assert found.phase == "Pending"
    assert (found.fields["downloaded"], found.fields["claim_uid"], found.fields["progress"]) == ("", "", 0)


def test_the_job_of_a_claim_being_deleted_is_deleted() -> None:
    view = build.view(build.model(build.served()), claim=build.claim(deleted=True), job=build.job())
    assert DeleteModelJob() in actions(view)


@pytest.mark.parametrize("what", ["claim", "job"])
def test_foreign_claims_and_jobs_are_never_adopted(what: str) -> None:
    foreign: dict[str, Any] = {"claim": build.claim()}
    foreign[what] = build.claim(ours=False) if what == "claim" else build.job(labels={}, owner_references=[])
    view = build.view(**foreign)
    assert (written(view).phase, written(view).reason) == ("Failed", "NameConflict")
    assert not any(isinstance(a, StartModelDownload | DeleteModelJob | ProvisionClaim) for a in actions(view))


@pytest.mark.parametrize("what", ["claim", "job"])
def test_a_model_waits_until_objects_of_an_earlier_model_of_its_name_are_gone(what: str) -> None:
    earlier = [{"kind": "Model", "name": "llama", "uid": "u0", "controller": True}]
    found: dict[str, Any] = {"claim": build.claim(), "job": build.job()}
    found[what] = msgspec.structs.replace(
        found[what], metadata=msgspec.structs.replace(found[what].metadata, owner_references=earlier)
    )
    view = build.view(**found)
    assert (written(view).phase, written(view).reason) == ("Pending", "Starting")
    assert "belongs to an earlier Model of this name" in written(view).message
    assert not any(isinstance(a, StartModelDownload | DeleteModelJob | ProvisionClaim) for a in actions(view))


def test_a_claim_of_another_workload_is_named_with_its_owner() -> None:
    owner = [{"kind": "TrainingJob", "name": "train", "uid": "u0", "controller": True}]
    found = msgspec.structs.replace(
        build.claim(), metadata=msgspec.structs.replace(build.claim().metadata, owner_references=owner)
    )
    assert written(build.view(claim=found)).message == (
        "claim model-llama belongs to TrainingJob train; create the Model under another name"
    )


def test_a_changed_source_is_downloaded_beside_the_files_that_are_served() -> None:
    before = build.model(build.served())
    changed = build.model(build.served(), version="3.2")
    view = build.view(changed, claim=build.claim())
    digest = wanted_digest(changed.spec)
    assert digest != wanted_digest(before.spec)
    assert StartModelDownload(ModelDownload(digest, "c1", f".revisions/{digest}", size="20Gi")) in actions(view)
    assert written(view).phase == "Ready"
    assert written(view).update == ("Downloading", IN_PROGRESS)


@pytest.mark.parametrize(("mounted", "kept"), [(None, ()), (frozenset(), (".revisions/{}",))])
def test_a_source_that_replaces_an_incomplete_download_gets_a_directory_of_its_own(
    mounted: frozenset[str] | None, kept: tuple[str, ...]
) -> None:
    """The first download left files at the root, or was complete although nobody recorded it."""
    changed = build.model(build.begun("0" * 16))
    view = build.view(changed, claim=build.claim(), mounted=mounted)
    path = f".revisions/{view.wanted}"
    expected = ModelDownload(view.wanted, "c1", path, tuple(one.format(view.wanted) for one in kept), "20Gi")
    assert StartModelDownload(expected) in actions(view)
    done = pod("Succeeded", DownloadReport(revision="abc"))
    complete = written(build.view(changed, claim=build.claim(), job=build.job("Complete"), pods=(done,)))
    assert (complete.phase, complete.fields["path"]) == ("Ready", path)


def test_an_update_that_fails_is_reported_and_leaves_the_model_ready() -> None:
    changed = build.model(build.served(), version="3.2")
    message = "the model needs 30.0 GiB more, and 4.0 GiB are free"
    failed = pod("Failed", DownloadReport(reason="InsufficientStorage", message=message))
    job = build.job("Failed", wanted=wanted_digest(changed.spec))
    found = written(build.view(changed, claim=build.claim(), job=job, pods=(failed,)))
    assert found.phase == "Ready"
    assert found.update is not None
    assert found.update[0] == "InsufficientStorage"
    assert message in found.message


@pytest.mark.parametrize(
    ("path", "mounted", "kept"),
    [
        ("", None, ()),
        ("", frozenset(), (".",)),
        (".revisions/aa", frozenset(), (".revisions/aa",)),
        (".revisions/aa", frozenset([".revisions/0", ".revisions/aa"]), (".revisions/0", ".revisions/aa")),
    ],
)
def test_an_update_keeps_served_and_mounted_versions(
    path: str, mounted: frozenset[str] | None, kept: tuple[str, ...]
) -> None:
    changed = build.model(build.served("0" * 16, path=path), version="3.2")
    found = actions(build.view(changed, claim=build.claim(), mounted=mounted))
    (start,) = (action for action in found if isinstance(action, StartModelDownload))
    assert start.download.kept == kept


def test_a_claim_that_is_too_small_grows_and_the_failed_download_is_retried() -> None:
    failed = pod("Failed", DownloadReport(reason="InsufficientStorage", message="10 GiB more"))
    job = build.job("Failed", size="10Gi")
    small = build.view(claim=build.claim(size="10Gi", capacity="10Gi"), job=job, pods=(failed,))
    assert actions(small)[0] == GrowClaim("20Gi")
    assert (written(small).phase, written(small).resizing) == (
        "Failed",
        ("Growing", "claim model-llama grows from 10Gi to 20Gi"),
    )
    assert not any(isinstance(action, DeleteModelJob) for action in actions(small))
    growing = build.view(claim=build.claim(capacity="10Gi"), job=job, pods=(failed,))
    assert not any(isinstance(action, DeleteModelJob) for action in actions(growing))
    grown = build.view(claim=build.claim(), job=job, pods=(failed,))
    assert DeleteModelJob() in actions(grown)
    assert (written(grown).phase, written(grown).resizing) == ("Pending", None)


def test_a_claim_that_cannot_grow_is_asked_again_later_and_the_rest_continues() -> None:
    view = build.view(build.model(build.served()), claim=build.claim(size="10Gi"), growth_refused="no")
    assert not any(isinstance(action, GrowClaim) for action in actions(view))
    found = written(view)
    assert found.phase == "Ready"
    assert found.resizing is not None
    assert (found.resizing[0], pause(view)) == ("ClaimNotGrown", 60.0)
    foreign = build.view(claim=build.claim(size="10Gi", ours=False))
    assert not any(isinstance(action, GrowClaim) for action in actions(foreign))


def test_the_job_of_an_earlier_source_is_deleted_first() -> None:
    view = build.view(claim=build.claim(), job=build.job(wanted="0" * 16))
    assert DeleteModelJob() in actions(view)
    assert not any(isinstance(action, StartModelDownload) for action in actions(view))


@pytest.mark.parametrize("changed", [{"nodeSelector": {"disk": "large"}}, {"credentialsSecret": "other"}])
@pytest.mark.parametrize("end", ["", "Failed"])
def test_a_job_with_another_node_selector_or_secret_is_replaced(end: str, changed: dict[str, Any]) -> None:
    """Its pod may be unschedulable for hours, and a Job cannot change its pods."""
    view = build.view(build.model(build.begun(), **changed), claim=build.claim(), job=build.job(end))
    assert DeleteModelJob() in actions(view)
    assert "was created for an earlier spec" in written(view).message
    of_older_release = build.job(
        end, labels={k: v for k, v in build.job().metadata.labels.items() if "settings" not in k}
    )
    kept = build.view(build.model(build.begun(), **changed), claim=build.claim(), job=of_older_release)
    assert DeleteModelJob() not in actions(kept)


def test_a_claim_that_never_binds_is_reported_with_its_provisioner() -> None:
    storage = StorageClass(metadata=build.model().metadata, provisioner="ebs.example.com")
    view = build.view(claim=build.claim("Pending"), job=build.job(), storage_class=storage)
    found = written(view, timedelta(minutes=3))
    assert (found.phase, found.reason) == ("Downloading", "ClaimNotBound")
    assert "ebs.example.com" in found.message
    assert written(build.view(claim=build.claim("Pending"), job=build.job())).reason == "StorageClassNotFound"


def test_a_job_that_is_refused_is_reported() -> None:
    found = written(build.view(claim=build.claim(), job_refused="exceeded quota: pods"))
    assert (found.phase, found.reason) == ("Pending", "JobRefused")


def test_a_deleted_model_is_withdrawn_from_the_queue() -> None:
    assert actions(build.view(build.model(deleted=True))) == [Withdraw()]


@given(
    status=st.sampled_from(
        [
            *(ModelObjectStatus(), ModelObjectStatus(phase="Failed"), build.begun(), build.begun("0" * 16)),
            *(build.served(), build.served("0" * 16)),
        ]
    ),
    claim=st.sampled_from([None, build.claim(), build.claim(ours=False), build.claim(deleted=True)]),
    job=st.sampled_from([None, build.job(), build.job("Complete"), build.job("Failed"), build.job(wanted="1" * 16)]),
    refused=st.sampled_from(["", "quota"]),
)
def test_one_status_is_written_and_no_job_starts_beside_another(
    status: ModelObjectStatus, claim: Any, job: Any, refused: str
) -> None:
    view = build.view(build.model(status), claim=claim, job=job, job_refused=refused)
    found = actions(view)
    assert sum(isinstance(action, WriteModelStatus) for action in found) == 1
    if any(isinstance(action, StartModelDownload) for action in found):
        assert job is None
        assert claim is not None
    if claim is None:
        assert written(view).phase == "Pending"
