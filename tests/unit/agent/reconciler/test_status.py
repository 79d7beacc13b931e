from dataclasses import replace

import pytest

from agent.reconciler.observation import (
    Cause,
    Downloading,
    Failure,
    FetchingManifest,
    ManifestFetched,
    Removed,
    Removing,
    Reserved,
    Work,
    fingerprint,
)
from agent.reconciler.retries import WHEN_SPACE_CHANGES_S
from agent.reconciler.status import entry_statuses
from shared.api.model_node import Entry, EntryStatus
from shared.names import draining_label
from tests.builders.observations import DAMAGED, DIGEST, SOUND, both, entry, failure, observation

KEY = ("llama", "r1")
DRAINING = draining_label(*KEY)


def only(statuses: list[EntryStatus]) -> EntryStatus:
    (status,) = statuses
    return status


@pytest.mark.parametrize(
    ("work", "phase"),
    [
        (None, "Pending"),
        (FetchingManifest(DIGEST), "Pending"),
        (ManifestFetched(DIGEST), "Pending"),
        (Reserved(DIGEST), "Waiting"),
        (Downloading(DIGEST), "Downloading"),
        (Removing(), "Pending"),
    ],
)
def test_each_stage_of_a_download_has_its_phase(work: Work | None, phase: str) -> None:
    status = only(entry_statuses(observation(entry(), works={KEY: work} if work else {})))
    assert (status.phase, status.observed, status.reason) == (phase, "Present", "")


def test_ready_is_reported_when_both_labels_are_on_the_node() -> None:
    ready = only(entry_statuses(observation(entry(), held={KEY: SOUND}, labels=both())))
    assert (ready.phase, ready.verified) == ("Ready", "digest")
    assert only(entry_statuses(observation(entry(), held={KEY: SOUND}, labels=both()[1:]))).phase == "Downloading"


def test_refused_labels_are_the_reason_of_a_complete_model_only_while_it_lacks_them() -> None:
    lacking = observation(entry(), held={KEY: SOUND}, labels=both()[1:], labels_refused="denied by a policy")
    status = only(entry_statuses(lacking))
    assert (status.phase, status.reason, status.attempts) == ("Downloading", "LabelsRefused", 1)
    assert "denied by a policy" in status.message
    status = only(entry_statuses(replace(lacking, labels=dict.fromkeys(both(), "true"))))
    assert (status.phase, status.reason, status.attempts) == ("Ready", "", 0)


def test_a_failure_is_reported_until_the_next_attempt_gets_further() -> None:
    failed = {KEY: failure(entry(), 1.0, "AuthDenied")}
    status = only(entry_statuses(observation(entry(), failures=failed)))
    assert (status.phase, status.reason, status.message) == ("Failed", "AuthDenied", "AuthDenied it is")
    assert (
        only(entry_statuses(observation(entry(), failures=failed, works={KEY: FetchingManifest(DIGEST)}))).phase
        == "Failed"
    )
    waiting = only(entry_statuses(observation(entry(), failures=failed, works={KEY: Reserved(DIGEST)})))
    assert (waiting.phase, waiting.reason, waiting.attempts) == ("Waiting", "AuthDenied", 1)
    begun = only(entry_statuses(observation(entry(), failures=failed, works={KEY: Downloading(DIGEST)})))
    assert (begun.phase, begun.reason, begun.attempts) == ("Downloading", "AuthDenied", 1)
    works = {KEY: Downloading(DIGEST, has_received=True)}
    moved = only(entry_statuses(observation(entry(), failures=failed, works=works)))
    assert (moved.phase, moved.reason, moved.attempts) == ("Downloading", "", 0)


def test_a_waiting_entry_does_not_report_the_failure_of_an_earlier_attempt() -> None:
    for reason in ("InsufficientStorage", "SourceChanged"):
        failed = {KEY: failure(entry(), 1.0, reason)}
        waiting = only(entry_statuses(observation(entry(), failures=failed, works={KEY: Reserved(DIGEST)})))
        assert (waiting.phase, waiting.reason, waiting.attempts) == ("Waiting", "", 0)


def test_a_passing_failure_stays_pending_with_its_reason() -> None:
    transient = {KEY: failure(entry(), 1.0, "NotGranted", transient=True)}
    status = only(entry_statuses(observation(entry(), failures=transient)))
    assert (status.phase, status.reason) == ("Pending", "NotGranted")


def test_a_failure_of_an_earlier_request_is_forgotten() -> None:
    failed = {KEY: failure(entry(manifest="b" * 64), 1.0)}
    assert only(entry_statuses(observation(entry(), failures=failed))).phase == "Pending"


def test_a_retrying_download_reports_the_reason_of_the_last_failure() -> None:
    work = Downloading(DIGEST, Cause("Unreachable", "connection refused"))
    status = only(entry_statuses(observation(entry(), works={KEY: work})))
    assert (status.phase, status.reason, status.message) == ("Downloading", "Unreachable", "connection refused")


@pytest.mark.parametrize("work", [None, Reserved(DIGEST), Downloading(DIGEST)])
def test_a_damaged_snapshot_is_reported_as_repairing(work: Work | None) -> None:
    status = only(entry_statuses(observation(entry(), held={KEY: DAMAGED}, works={KEY: work} if work else {})))
    assert (status.phase, status.reason) == ("Repairing", "FilesDamaged")
    assert "model.safetensors" in status.message


def test_draining_is_acknowledged_after_the_labels_keep_new_pods_away() -> None:
    leaving = entry(state="Draining")
    for labels in (both(), [*both(), DRAINING], both()[1:]):
        before = only(entry_statuses(observation(leaving, held={KEY: SOUND}, labels=labels)))
        assert (before.phase, before.observed) == ("Ready", "Present")
    after = only(entry_statuses(observation(leaving, held={KEY: SOUND}, labels=[*both()[1:], DRAINING])))
    assert (after.phase, after.observed) == ("Draining", "Draining")


def test_draining_is_acknowledged_after_the_download_has_ended() -> None:
    leaving = entry(state="Draining")
    assert (
        only(entry_statuses(observation(leaving, works={KEY: Downloading(DIGEST, stopping=True)}))).phase == "Pending"
    )
    assert only(entry_statuses(observation(leaving))).phase == "Draining"


def test_draining_does_not_wait_for_a_label_that_another_revision_holds() -> None:
    leaving, staying = entry(state="Draining"), entry(revision="r2")
    held = {KEY: SOUND, staying.key: SOUND}
    labels = {*both(), *both(revision="r2"), DRAINING}
    first, _ = entry_statuses(observation(leaving, staying, held=held, labels=labels))
    assert first.phase == "Draining"


def test_absent_is_reported_when_the_files_are_gone() -> None:
    gone = entry(state="Absent")
    assert only(entry_statuses(observation(gone, held={KEY: SOUND}))).phase == "Draining"
    assert only(entry_statuses(observation(gone, works={KEY: Removing()}))).phase == "Draining"
    last = only(entry_statuses(observation(gone, works={KEY: Removed()})))
    assert (last.phase, last.observed) == ("Absent", "Absent")


def test_a_removal_reports_its_progress() -> None:
    def message(work: Removing) -> str:
        status = only(entry_statuses(observation(entry(state="Absent"), works={KEY: work})))
        assert (status.phase, status.reason) == ("Draining", ""), "not a transition, so not written at once"
        return status.message

    assert message(Removing(3 * 2**30, 10 * 2**30)) == "3.0 GiB of at most 10.0 GiB are gone"
    assert message(Removing(0, 10 * 2**30)) == ""


def test_the_status_is_removed_with_the_entry() -> None:
    assert entry_statuses(observation(works={KEY: Removed()})) == []


def test_a_snapshot_that_no_entry_names_is_reported() -> None:
    status = only(entry_statuses(observation(held={KEY: SOUND}, labels=both())))
    assert (status.id, status.revision, status.phase, status.observed) == ("llama", "r1", "Unknown", "")


def test_an_unknown_state_is_reported() -> None:
    status = only(entry_statuses(observation(entry(state="Frozen"), held={KEY: SOUND})))
    assert (status.phase, status.observed, status.reason) == ("Unknown", "Frozen", "UnknownState")


def test_a_model_on_a_claim_has_no_status() -> None:
    assert entry_statuses(observation(entry(uri="pvc://ns/claim/path"))) == []


def test_a_long_message_fits_its_field() -> None:
    long = Downloading(DIGEST, Cause("Unreachable", "x" * 5000))
    assert len(only(entry_statuses(observation(entry(), works={KEY: long}))).message) <= 2048


def full(of: Entry, due_s: float = WHEN_SPACE_CHANGES_S) -> dict[tuple[str, str], Failure]:
    cause = Cause("InsufficientStorage", "need 9 bytes", 7)
    return {of.key: Failure(cause, due_s, fingerprint(of))}


def test_a_shortage_is_reported_until_the_retry_is_due() -> None:
    assert only(entry_statuses(observation(entry(), failures=full(entry())))).shortage == 7
    again = only(entry_statuses(observation(entry(), failures=full(entry(), 50.0))))
    assert (again.phase, again.reason, again.shortage) == ("Failed", "InsufficientStorage", 0)


def test_the_message_about_missing_space_says_how_much_may_be_evicted() -> None:
    assert only(entry_statuses(observation(entry(), failures=full(entry())))).message == "need 9 bytes"
    helped = entry(evictable=2048)
    status = only(entry_statuses(observation(helped, failures=full(helped))))
    assert status.message == "need 9 bytes; at most 2.0 KiB may be evicted"


def test_the_bytes_that_a_removal_would_free_are_reported() -> None:
    held = observation(entry(), held={KEY: SOUND}, labels=both(), frees={KEY: 12})
    assert only(entry_statuses(held)).frees == 12


@pytest.mark.parametrize(
    ("state", "works", "phase"), [("Draining", {}, "Draining"), ("Absent", {KEY: Removed()}, "Absent")]
)
def test_an_evicted_entry_reports_which_model_it_made_room_for(
    state: str, works: dict[tuple[str, str], Work], phase: str
) -> None:
    leaving = entry(state=state, evicted_for="new", since="2026-06-01T12:00:00Z", size=2**20)
    status = only(entry_statuses(observation(leaving, works=works)))
    assert (status.phase, status.reason) == (phase, "Evicted")
    for part in ("evicted since 2026-06-01T12:00:00Z", "room for new", "1.0 MiB"):
        assert part in status.message
