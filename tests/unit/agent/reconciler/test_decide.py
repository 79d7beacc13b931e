from dataclasses import replace
from typing import Any

import pytest

from agent.reconciler.actions import (
    Action,
    ChangeLabels,
    DownloadEntry,
    FetchManifest,
    ReleaseEntry,
    Remove,
    Reserve,
    SkipEntry,
    StopWork,
)
from agent.reconciler.decide import MAX_REMOVING, decide, next_due_s
from agent.reconciler.observation import (
    Downloading,
    FetchingManifest,
    HeldSnapshot,
    Key,
    ManifestFetched,
    Removed,
    Removing,
    Reserved,
    Work,
)
from shared.api.model_node import Entry
from shared.names import draining_label, ready_label, snapshot_label
from tests.builders.observations import (
    DAMAGED,
    DIGEST,
    SOUND,
    UID,
    both,
    claim,
    entry,
    failure,
    model_node,
    observation,
)

KEY = ("llama", "r1")
DRAINING = draining_label(*KEY)
OTHER = "b" * 64


def starts(actions: list[Action]) -> list[Entry]:
    return [a.entry for a in actions if isinstance(a, DownloadEntry)]


def test_a_new_entry_is_prepared() -> None:
    assert decide(observation(entry())) == [FetchManifest(entry())]


def test_an_entry_without_a_manifest_waits_for_the_controller() -> None:
    assert decide(observation(entry(manifest=""))) == []


def test_a_prepared_entry_is_reserved_before_it_is_granted() -> None:
    wanted_entry = entry(granted=False)
    assert decide(observation(wanted_entry, works={KEY: ManifestFetched(DIGEST)})) == [Reserve(wanted_entry)]


def test_a_reserved_entry_waits_for_its_grant_and_starts_with_it() -> None:
    waiting = observation(entry(granted=False), works={KEY: Reserved(DIGEST)})
    assert decide(waiting) == []
    assert decide(observation(entry(), works={KEY: Reserved(DIGEST)})) == [DownloadEntry(entry(), repair=False)]


def test_a_running_download_is_left_alone() -> None:
    assert decide(observation(entry(), works={KEY: Downloading(DIGEST)})) == []


def test_after_the_commit_the_labels_are_set_and_nothing_else_is_done() -> None:
    ready, snapshot = both()
    assert decide(observation(entry(), held={KEY: SOUND})) == [ChangeLabels(((ready, "true"), (snapshot, "true")))]
    assert decide(observation(entry(), held={KEY: SOUND}, labels=both())) == []


def test_a_label_patch_is_not_repeated_before_its_retry_is_due() -> None:
    unlabelled = observation(entry(), held={KEY: SOUND}, label_patch_due_s=101.0)
    assert decide(unlabelled) == []
    assert next_due_s(unlabelled) == 101.0


def test_slots_go_first_to_damaged_models_then_by_priority_then_by_age() -> None:
    old, new = entry("old", since="2026-01-01"), entry("new", since="2026-02-01")
    urgent, broken = entry("urgent", since="2026-03-01", priority=5), entry("broken", since="2026-04-01")
    entries = [new, old, broken, urgent]
    works: dict[Key, Work] = {e.key: Reserved(DIGEST) for e in entries}
    ordered = observation(*entries, works=works, held={broken.key: DAMAGED}, slots=4)
    assert starts(decide(ordered)) == [broken, urgent, old, new]
    assert starts(decide(replace(ordered, slots=2))) == [broken, urgent]


def test_running_and_stopping_downloads_take_slots() -> None:
    wanted_entry = entry("b")
    works: dict[Key, Work] = {("a", "r1"): Downloading(DIGEST, stopping=True), wanted_entry.key: Reserved(DIGEST)}
    assert starts(decide(observation(entry("a"), wanted_entry, works=works, slots=1))) == []


def test_reservations_are_requested_by_priority_then_age() -> None:
    entries = [entry("b", since="2026-02-01"), entry("a", since="2026-01-01"), entry("c", priority=1)]
    works = {e.key: ManifestFetched(DIGEST) for e in entries}
    asked = [a.entry.id for a in decide(observation(*entries, works=works)) if isinstance(a, Reserve)]
    assert asked == ["c", "a", "b"]


@pytest.mark.parametrize("works", [{}, {KEY: ManifestFetched(DIGEST)}])
def test_a_failed_entry_is_retried_only_when_it_is_due(works: dict[tuple[str, str], ManifestFetched]) -> None:
    failed = observation(entry(), works=works, failures={KEY: failure(entry(), 130.0)})
    assert decide(failed) == []
    assert next_due_s(failed) == 130.0
    assert decide(replace(failed, now_s=130.0)) != []


def test_a_failed_entry_is_tried_at_once_when_it_changes() -> None:
    failed = {KEY: failure(entry(), 4000.0)}
    changed = entry(claims=[claim(secret="token")])
    assert decide(observation(changed, failures=failed)) == [FetchManifest(changed)]


@pytest.mark.parametrize("change", [{"granted": False}, {"since": "2026-01-01"}, {"in_use": True}, {"priority": 3}])
def test_grants_dates_and_users_do_not_speed_up_a_failed_entry(change: dict[str, Any]) -> None:
    assert decide(observation(entry(**change), failures={KEY: failure(entry(), 4000.0)})) == []


def test_a_withdrawn_grant_stops_the_download() -> None:
    assert decide(observation(entry(granted=False), works={KEY: Downloading(DIGEST)})) == [StopWork(KEY)]


@pytest.mark.parametrize("state", ["Draining", "Absent", "Frozen"])
def test_a_download_that_is_no_longer_wanted_is_stopped(state: str) -> None:
    wanted_entry = entry(state=state)
    assert decide(observation(wanted_entry, works={KEY: Downloading(DIGEST)})) == [StopWork(KEY)]
    assert decide(observation(wanted_entry, works={KEY: FetchingManifest(DIGEST)})) == [StopWork(KEY)]
    assert ReleaseEntry(KEY) in decide(observation(wanted_entry, works={KEY: Reserved(DIGEST)}))


def test_the_download_of_a_deleted_entry_is_stopped_and_its_files_are_kept() -> None:
    assert decide(observation(works={KEY: Downloading(DIGEST)}, held={KEY: SOUND}, labels=both())) == [StopWork(KEY)]
    assert decide(observation(held={KEY: SOUND}, labels=both())) == []


def test_downloads_continue_without_a_model_node_of_this_node() -> None:
    running = observation(works={KEY: Downloading(DIGEST), ("b", "r1"): Reserved(DIGEST)}, model_node=None)
    assert decide(running) == []
    assert decide(replace(running, model_node=model_node([entry(state="Absent")], uid="other"))) == []
    assert decide(replace(running, model_node=model_node([entry()]), synced=False)) == []


def test_a_changed_manifest_of_the_same_revision_restarts_the_download() -> None:
    wanted_entry = entry(manifest=OTHER)
    assert decide(observation(wanted_entry, works={KEY: Downloading(DIGEST)})) == [StopWork(KEY)]
    assert decide(observation(wanted_entry, works={KEY: Reserved(DIGEST)})) == [ReleaseEntry(KEY)]


def test_a_damaged_snapshot_is_repaired_without_a_grant() -> None:
    wanted_entry = entry(granted=False, in_use=True)
    damaged = observation(wanted_entry, held={KEY: DAMAGED}, labels=both())
    assert decide(damaged) == [FetchManifest(wanted_entry)]
    assert decide(replace(damaged, works={KEY: Reserved(DIGEST)})) == [DownloadEntry(wanted_entry, repair=True)]
    assert decide(replace(damaged, works={KEY: Downloading(DIGEST)})) == []


def test_damage_drops_the_labels_before_the_repair_starts() -> None:
    actions = decide(observation(entry(), held={KEY: DAMAGED}, labels=both(), works={KEY: Reserved(DIGEST)}))
    assert [type(a) for a in actions] == [ChangeLabels, DownloadEntry]


def test_a_snapshot_of_another_manifest_is_replaced() -> None:
    assert decide(observation(entry(), held={KEY: HeldSnapshot(OTHER)}, labels=both())) == [FetchManifest(entry())]


def test_a_reservation_that_is_no_longer_needed_is_released() -> None:
    repaired = observation(entry(), held={KEY: SOUND}, labels=both(), works={KEY: Reserved(DIGEST)})
    assert decide(repaired) == [ReleaseEntry(KEY)]


class TestRemoval:
    gone = entry(state="Absent")

    def test_labels_go_first_and_only_then_the_files(self) -> None:
        labelled = observation(self.gone, held={KEY: SOUND}, labels=both())
        assert [type(a) for a in decide(labelled)] == [ChangeLabels]
        assert decide(observation(self.gone, held={KEY: SOUND}, labels=[DRAINING])) == [Remove(self.gone, "mn-1", 3)]

    def test_nothing_is_removed_before_the_label_keeps_new_pods_away(self) -> None:
        assert decide(observation(self.gone, held={KEY: SOUND}, label_patch_due_s=101)) == []

    def test_while_the_labels_cannot_be_dropped_nothing_is_removed(self) -> None:
        assert decide(observation(self.gone, held={KEY: SOUND}, labels=both(), label_patch_due_s=101)) == []
        assert decide(observation(self.gone, held={KEY: SOUND}, labels=both()[:1], label_patch_due_s=101)) == []

    def test_the_ready_label_of_another_revision_does_not_delay_a_removal(self) -> None:
        staying = entry(revision="r2")
        held = {KEY: SOUND, staying.key: SOUND}
        actions = decide(observation(self.gone, staying, held=held, labels={*both(revision="r2"), DRAINING}))
        assert actions == [Remove(self.gone, "mn-1", 3)]

    def test_an_incomplete_model_is_removed_too(self) -> None:
        assert decide(observation(self.gone)) == [Remove(self.gone, "mn-1", 3)]

    @pytest.mark.parametrize("work", [Removing(), Removed()])
    def test_a_removal_is_not_started_twice(self, work: Removing | Removed) -> None:
        assert decide(observation(self.gone, works={KEY: work})) == []

    def test_only_a_few_models_are_removed_at_a_time(self) -> None:
        many = [entry(f"llama-{number}", state="Absent") for number in range(10)]
        assert decide(observation(*many)) == [Remove(gone, "mn-1", 3) for gone in many[:MAX_REMOVING]]
        works: dict[Key, Work] = dict.fromkeys((gone.key for gone in many[: MAX_REMOVING - 1]), Removing())
        works[many[8].key] = Removed()
        assert decide(observation(*many, works=works)) == [Remove(many[MAX_REMOVING - 1], "mn-1", 3)]

    def test_a_failed_removal_is_not_retried_before_it_is_due(self) -> None:
        refused = {KEY: failure(self.gone, 105.0)}
        assert decide(observation(self.gone, held={KEY: SOUND}, labels=[DRAINING], failures=refused)) == []

    @pytest.mark.parametrize("state", ["absent", "Gone", "", "Present", "Draining"])
    def test_only_the_exact_state_absent_removes_a_snapshot(self, state: str) -> None:
        actions = decide(observation(entry(state=state), held={KEY: SOUND}))
        assert not any(isinstance(a, Remove) for a in actions)

    def test_nothing_is_removed_for_another_node_an_empty_list_or_before_the_list_is_known(self) -> None:
        other = model_node([self.gone], uid="other")
        ours = model_node([self.gone])
        for stale in (
            observation(held={KEY: SOUND}, model_node=other),
            observation(held={KEY: SOUND}, model_node=other, node_uid=""),
            observation(held={KEY: SOUND}, model_node=ours, synced=False),
            observation(held={KEY: SOUND}, model_node=model_node([])),
            observation(held={KEY: SOUND}, model_node=None),
        ):
            assert decide(stale) == []

    def test_an_entry_present_again_before_its_removal_keeps_its_files(self) -> None:
        assert decide(observation(entry(), held={KEY: SOUND}, labels=both())) == []

    def test_an_entry_present_again_after_its_removal_starts_over(self) -> None:
        assert decide(observation(entry(), works={KEY: Removed()})) == [ReleaseEntry(KEY)]

    def test_a_removed_model_is_forgotten_once_its_entry_is_gone(self) -> None:
        assert decide(observation(works={KEY: Removed()})) == [ReleaseEntry(KEY)]


def test_a_model_on_a_claim_is_reported_once_as_skipped_and_never_fetched() -> None:
    on_claim = entry(uri="pvc://ns/claim/path")
    assert decide(observation(on_claim)) == [SkipEntry(on_claim)]
    assert decide(observation(on_claim, skipped=frozenset({KEY}))) == []


def test_deciding_twice_gives_the_same_actions() -> None:
    seen = observation(entry(), entry("b"), works={KEY: Reserved(DIGEST)}, node_uid=UID)
    assert decide(seen) == decide(seen)


@pytest.mark.parametrize("named", [True, False])
def test_a_ready_label_that_another_revision_supports_does_not_delay_a_removal(*, named: bool) -> None:
    gone, other = entry(state="Absent"), entry(revision="r2")
    held = {gone.key: SOUND, other.key: SOUND}
    labels = {ready_label("llama"), snapshot_label(*other.key), DRAINING}
    entries = (gone, other) if named else (gone,)
    assert [a for a in decide(observation(*entries, held=held, labels=labels)) if isinstance(a, Remove)]
    alone = observation(gone, held={gone.key: SOUND}, labels=labels)
    assert not [a for a in decide(alone) if isinstance(a, Remove)]
