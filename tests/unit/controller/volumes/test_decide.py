"""The actions for one claim and its volume."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.manager.actions import DeleteClaim, Requeue, Withdraw
from controller.placement.volume_names import SnapshotKey
from controller.provisioning.creation_failure import CreationFailure
from controller.volumes.decide import (
    DELAYED,
    NAME_CONFLICT,
    NOT_BOUND,
    REFUSED,
    TERMINATING,
    UNBOUND_S,
    UNUSED_S,
    DeleteVolume,
    ListPods,
    Provision,
    ReportReason,
    decide,
)
from controller.volumes.keys import VolumeKey
from controller.volumes.objects import VolumeManifest
from controller.volumes.view import VolumeView
from shared.api.core import (
    BOUND,
    ClaimRef,
    ClaimSpec,
    ClaimStatus,
    HostPath,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    VolumeSpec,
)
from shared.kube.objects import Meta

KEY = VolumeKey("team", "llama")
MANIFEST = VolumeManifest("team", "llama", "llama-team", SnapshotKey("llama", "r"), 5, "/var/lib/larder")
POD = Pod(metadata=Meta(name="p", namespace="team", uid="pod"))
USED = VolumeView(KEY, users=(POD,), manifest=MANIFEST)
UNUSED = VolumeView(KEY, live_users=False, unused_s=UNUSED_S)


def claim(uid: str = "c1", phase: str = BOUND, **meta: Any) -> PersistentVolumeClaim:
    spec, status = ClaimSpec(volume_name="llama-team", storage_class_name="fast"), ClaimStatus(phase=phase)
    named = Meta(name="llama", namespace="team", uid=uid, **meta)
    return PersistentVolumeClaim(metadata=named, spec=spec, status=status)


def volume(bound_to: str = "", path: str = MANIFEST.path, deletion_timestamp: str | None = None) -> PersistentVolume:
    spec = VolumeSpec(claim_ref=ClaimRef(namespace="team", name="llama", uid=bound_to), local=HostPath(path=path))
    return PersistentVolume(
        metadata=Meta(name="llama-team", uid="v1", deletion_timestamp=deletion_timestamp), spec=spec
    )


def test_claim_and_volume_are_created_for_the_first_pod() -> None:
    assert decide(USED) == [Provision(MANIFEST), Requeue(60.0)]
    assert decide(replace(USED, volume=volume())) == [Provision(MANIFEST), Requeue(60.0)]
    assert decide(replace(USED, claim=claim(), is_ours=True)) == [Provision(MANIFEST), Requeue(60.0)]


def test_nothing_is_created_if_claim_and_volume_exist() -> None:
    assert decide(replace(USED, claim=claim(), is_ours=True, volume=volume("c1"))) == [Withdraw()]


def test_a_foreign_claim_is_reported_and_never_touched() -> None:
    actions = decide(replace(USED, claim=claim()))
    assert [a.reason for a in actions if isinstance(a, ReportReason)] == [NAME_CONFLICT]
    assert any(isinstance(a, Requeue) for a in actions)
    assert decide(replace(UNUSED, claim=claim())) == [Withdraw()]


def test_only_a_claim_named_after_its_model_has_another_name_to_fall_back_on() -> None:
    advice = "delete claim llama if nobody needs its data"
    for manifest, phrase in (
        (MANIFEST, f"{advice}, or delete the pod: its successor gets another name"),
        (replace(MANIFEST, wanted=SnapshotKey("other", "r")), advice),
        (None, advice),
    ):
        _, report, _ = decide(replace(USED, claim=claim(), manifest=manifest))
        assert isinstance(report, ReportReason)
        assert report.message.endswith(f"; {phrase}")


def test_after_the_last_pod_the_claim_and_then_the_volume_is_deleted() -> None:
    kept = replace(UNUSED, claim=claim(), is_ours=True, volume=volume("c1"))
    assert decide(replace(kept, unused_s=10)) == [Withdraw(), Requeue(UNUSED_S - 10)]
    assert decide(replace(kept, live_users=None)) == [Withdraw(), ListPods()]
    assert decide(kept) == [Withdraw(), DeleteClaim(claim().metadata)]
    assert decide(replace(kept, claim=claim(deletion_timestamp="now"))) == [Withdraw()]
    assert decide(replace(UNUSED, volume=volume("c1"))) == [Withdraw(), DeleteVolume(volume("c1")), Requeue(60.0)]
    assert decide(replace(UNUSED, volume=volume("c1", deletion_timestamp="now"))) == [Withdraw()]


def test_a_volume_kept_by_a_foreign_claim_of_its_name_is_looked_at_again() -> None:
    actions = decide(replace(UNUSED, claim=claim(), volume=volume()))
    assert actions == [Withdraw(), DeleteVolume(volume()), Requeue(60.0)]


def test_a_user_found_by_a_live_read_keeps_the_claim() -> None:
    actions = decide(replace(UNUSED, claim=claim(), is_ours=True, volume=volume("c1"), live_users=True))
    assert [type(a) for a in actions] == [Withdraw, Requeue]


def test_a_volume_whose_claim_was_deleted_manually_is_recreated() -> None:
    again = [DeleteVolume(volume("c1")), Requeue(60.0)]
    assert decide(replace(USED, volume=volume("c1"))) == again
    assert decide(replace(USED, claim=claim("c2"), is_ours=True, volume=volume("c1"))) == again


def test_a_free_volume_with_other_files_is_recreated() -> None:
    other = volume(path="/var/lib/larder/models/llama/old")
    assert decide(replace(USED, volume=other)) == [DeleteVolume(other), Requeue(60.0)]


def test_a_claim_with_other_files_is_reported() -> None:
    other = volume("c1", path="/var/lib/larder/models/llama/old")
    actions = decide(replace(USED, claim=claim(), is_ours=True, volume=other))
    assert [a.reason for a in actions if isinstance(a, ReportReason)] == [NAME_CONFLICT]
    assert not any(isinstance(a, DeleteClaim | DeleteVolume) for a in actions)


def test_a_claim_with_the_files_of_an_earlier_store_root_is_reported_with_the_way_out() -> None:
    former = volume("c1", path="/mnt/former/models/llama/r")
    _, report, again = decide(replace(USED, claim=claim(), is_ours=True, volume=former))
    assert isinstance(report, ReportReason)
    assert "earlier storeRoot (/mnt/former/models/llama/r)" in report.message
    assert "new pods get the files in /var/lib/larder" in report.message
    assert isinstance(again, Requeue)
    assert decide(replace(USED, volume=former)) == [DeleteVolume(former), Requeue(60.0)]


@pytest.mark.parametrize(
    "view",
    [
        replace(USED, claim=claim(deletion_timestamp="now"), is_ours=True, volume=volume("c1")),
        replace(USED, volume=volume("c1", deletion_timestamp="now")),
    ],
    ids=["claim", "volume"],
)
def test_pods_wait_for_objects_being_removed_which_are_reported(view: VolumeView) -> None:
    actions = decide(view)
    assert [type(a) for a in actions] == [Withdraw, ReportReason, Requeue]
    assert [a.reason for a in actions if isinstance(a, ReportReason)] == [TERMINATING]


def test_a_claim_that_is_not_bound_in_time_is_reported() -> None:
    pending = replace(USED, claim=claim(phase="Pending"), is_ours=True, volume=volume())
    assert decide(replace(pending, unbound_s=5)) == [Withdraw(), Requeue(UNBOUND_S - 5)]
    _, report, again = decide(replace(pending, unbound_s=UNBOUND_S))
    assert isinstance(report, ReportReason)
    assert (report.reason, again) == (NOT_BOUND, Requeue(60.0))
    assert "'fast'" in report.message
    assert "kubectl describe pvc llama -n team" in report.message


def test_a_delayed_creation_is_reported_and_requested_again() -> None:
    delayed, repeated, again = decide(replace(USED, failure=CreationFailure("503", retry_s=None)))
    assert isinstance(delayed, ReportReason)
    assert (delayed.reason, repeated, again) == (DELAYED, Provision(MANIFEST), Requeue(60.0))


def test_pods_with_an_existing_claim_are_left_alone_even_if_their_model_changed() -> None:
    view = replace(USED, manifest=None, problem=("ModelNotFound", "gone"), claim=claim(), is_ours=True)
    assert decide(replace(view, volume=volume("c1"))) == [Withdraw()]


def test_a_refusal_is_reported_and_retried() -> None:
    failure = CreationFailure("403 Forbidden: exceeded quota: storage", retry_s=12)
    report, again = decide(replace(USED, failure=failure))
    assert isinstance(report, ReportReason)
    assert report.reason == REFUSED
    assert "exceeded quota: storage" in report.message
    assert again == Requeue(12)


CLAIMS = st.sampled_from([None, claim(), claim("c2"), claim(deletion_timestamp="now")])
VOLUMES = st.sampled_from([None, volume(), volume("c1"), volume("c1", deletion_timestamp="now")])


@given(
    st.booleans(), CLAIMS, VOLUMES, st.booleans(), st.sampled_from([None, True, False]), st.sampled_from([0.0, 99.0])
)
def test_no_claim_in_use_is_deleted_and_nothing_is_created_without_a_user(
    used: bool,  # noqa: FBT001 - drawn
    found: PersistentVolumeClaim | None,
    of_ours: PersistentVolume | None,
    ours: bool,  # noqa: FBT001 - drawn
    live: bool | None,  # noqa: FBT001 - drawn
    unused_s: float,
) -> None:
    base = USED if used else UNUSED
    view = replace(base, claim=found, volume=of_ours, is_ours=ours, live_users=live, unused_s=unused_s)
    actions = decide(view)
    deletes_claim = any(isinstance(a, DeleteClaim) for a in actions)
    if used or not ours or live is not False:
        assert not deletes_claim
    if not used:
        assert not any(isinstance(a, Provision) for a in actions)
    if any(isinstance(a, DeleteVolume) for a in actions):
        assert found is None or not ours or (of_ours is not None and of_ours.spec.claim_ref.uid != found.metadata.uid)
