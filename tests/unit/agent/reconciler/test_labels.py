from dataclasses import replace

import pytest

from agent.reconciler.labels import label_changes, own_labels
from agent.reconciler.observation import (
    Downloading,
    FetchingManifest,
    HeldSnapshot,
    ManifestFetched,
    Removing,
    Reserved,
    Work,
)
from shared.names import draining_label, fetching_label
from tests.builders.observations import DAMAGED, DIGEST, SOUND, both, entry, model_node, observation

KEY = ("llama", "r1")
READY, SNAPSHOT = both()
FETCHING, DRAINING = fetching_label(*KEY), draining_label(*KEY)
DOWNLOAD = Downloading(DIGEST, has_received=True)


def test_a_complete_snapshot_that_is_wanted_gets_both_labels() -> None:
    assert label_changes(observation(entry(), held={KEY: SOUND})) == {READY: "true", SNAPSHOT: "true"}


def test_existing_labels_are_not_set_again() -> None:
    assert label_changes(observation(entry(), held={KEY: SOUND}, labels=both())) == {}


def test_a_label_with_another_value_is_corrected() -> None:
    tampered = observation(entry(), held={KEY: SOUND}, labels=both())
    object.__setattr__(tampered, "labels", {READY: "false", SNAPSHOT: "true"})
    assert label_changes(tampered) == {READY: "true"}


def test_labels_without_any_snapshot_are_dropped_before_anything_is_known() -> None:
    assert label_changes(observation(labels=both(), synced=False)) == {READY: None, SNAPSHOT: None}
    assert label_changes(observation(labels=both())) == {READY: None, SNAPSHOT: None}


def test_labels_of_an_intact_snapshot_stay_before_the_model_node_is_known() -> None:
    assert label_changes(observation(held={KEY: SOUND}, labels=both(), synced=False, model_node=None)) == {}


def test_labels_of_a_damaged_snapshot_wait_for_the_model_node_which_knows_its_users() -> None:
    assert label_changes(observation(held={KEY: DAMAGED}, labels=both(), synced=False, model_node=None)) == {}
    assert set(label_changes(observation(held={KEY: DAMAGED}, labels=both(), model_node=None))) == set(both())


def test_a_model_node_of_another_node_sets_no_labels() -> None:
    assert label_changes(observation(held={KEY: SOUND}, model_node=model_node([entry()], uid="other"))) == {}
    assert label_changes(observation(held={KEY: SOUND}, model_node=model_node([entry()], uid=""), node_uid="")) == {}


def test_a_snapshot_that_no_entry_names_keeps_its_labels_and_gets_none() -> None:
    assert label_changes(observation(held={KEY: SOUND}, labels=[SNAPSHOT])) == {}


def test_draining_drops_only_the_ready_label_and_keeps_new_pods_away() -> None:
    changes = label_changes(observation(entry(state="Draining"), held={KEY: SOUND}, labels=both()))
    assert changes == {READY: None, DRAINING: "true"}


def test_an_absent_entry_loses_its_ready_and_snapshot_labels() -> None:
    dropped = label_changes(observation(entry(state="Absent"), held={KEY: SOUND}, labels=[*both(), DRAINING]))
    assert dropped == {READY: None, SNAPSHOT: None}


def test_new_pods_are_kept_away_until_the_files_are_gone() -> None:
    leaving, labels = entry(state="Absent"), [DRAINING]
    assert label_changes(observation(leaving, held={KEY: SOUND}, works={KEY: Removing()}, labels=labels)) == {}
    assert label_changes(observation(held={KEY: SOUND}, works={KEY: Removing()}, labels=labels)) == {}
    assert label_changes(observation(leaving, labels=labels)) == {DRAINING: None}


def test_the_label_of_draining_is_removed_when_the_model_is_wanted_again_or_its_entry_is_gone() -> None:
    wanted = observation(entry(), held={KEY: SOUND}, labels=[SNAPSHOT, DRAINING])
    assert label_changes(wanted) == {DRAINING: None, READY: "true"}
    assert label_changes(observation(held={KEY: SOUND}, labels=[DRAINING])) == {DRAINING: None}
    unknown = observation(held={KEY: SOUND}, labels=[DRAINING], synced=False, model_node=None)
    assert label_changes(unknown) == {}, "a new agent does not know yet what the previous one was removing"


def test_a_draining_model_on_a_claim_or_without_files_has_no_label() -> None:
    assert label_changes(observation(entry(state="Draining", uri="pvc://ns/claim/path"), held={KEY: SOUND})) == {}
    assert label_changes(observation(entry(state="Draining"))) == {}


def test_the_ready_label_stays_while_another_revision_supports_it() -> None:
    leaving, staying = entry(state="Absent"), entry(revision="r2")
    held = {KEY: SOUND, ("llama", "r2"): SOUND}
    labels = {*both(), *both(revision="r2")}
    assert label_changes(observation(leaving, staying, held=held, labels=labels)) == {SNAPSHOT: None, DRAINING: "true"}


def test_damage_drops_both_labels_unless_pods_use_the_snapshot() -> None:
    assert set(label_changes(observation(entry(), held={KEY: DAMAGED}, labels=both()))) == set(both())
    assert label_changes(observation(entry(in_use=True), held={KEY: DAMAGED}, labels=both())) == {}


def test_labels_of_a_missing_snapshot_are_removed_even_if_it_is_in_use() -> None:
    assert set(label_changes(observation(entry(in_use=True), labels=both()))) == set(both())


def test_a_damaged_snapshot_in_use_gets_no_label() -> None:
    assert label_changes(observation(entry(in_use=True), held={KEY: DAMAGED})) == {}


def test_a_snapshot_of_another_manifest_keeps_its_labels_while_it_is_replaced() -> None:
    other = HeldSnapshot("b" * 64)
    assert label_changes(observation(entry(), held={KEY: other}, labels=both())) == {}
    assert label_changes(observation(entry(), held={KEY: other})) == {}


def test_an_unknown_state_changes_nothing() -> None:
    assert label_changes(observation(entry(state="Frozen"), held={KEY: SOUND}, labels=both())) == {}
    assert label_changes(observation(entry(state="Frozen"), held={KEY: SOUND})) == {}


def test_a_model_on_a_claim_never_has_a_label() -> None:
    on_claim = entry(uri="pvc://ns/claim/path")
    assert label_changes(observation(on_claim, held={KEY: SOUND})) == {}
    assert set(label_changes(observation(on_claim, held={KEY: SOUND}, labels=both()))) == set(both())


def test_a_download_that_has_received_something_has_a_label_until_it_ends() -> None:
    assert label_changes(observation(entry(), works={KEY: DOWNLOAD})) == {FETCHING: "true"}
    assert label_changes(observation(entry(), works={KEY: DOWNLOAD}, labels=[FETCHING])) == {}
    assert label_changes(observation(entry(), labels=[FETCHING])) == {FETCHING: None}


def test_one_patch_removes_the_label_of_a_download_and_sets_those_of_its_files() -> None:
    finished = observation(entry(), held={KEY: SOUND}, labels=[FETCHING])
    assert label_changes(finished) == {FETCHING: None, READY: "true", SNAPSHOT: "true"}


@pytest.mark.parametrize(
    "work",
    [
        FetchingManifest(DIGEST),
        ManifestFetched(DIGEST),
        Reserved(DIGEST),
        replace(DOWNLOAD, stopping=True),
        Downloading(DIGEST),
    ],
)
def test_only_a_running_download_has_the_label(work: Work) -> None:
    assert label_changes(observation(entry(), works={KEY: work}, labels=[FETCHING])) == {FETCHING: None}


def test_the_label_of_a_download_is_removed_with_its_entry() -> None:
    wishes = observation(), observation(entry(state="Draining")), observation(entry(granted=False))
    for unwanted in (*wishes, observation(entry(), synced=False)):
        assert label_changes(replace(unwanted, works={KEY: DOWNLOAD}, labels={FETCHING: "true"})) == {FETCHING: None}


def test_a_repair_does_not_set_the_download_label() -> None:
    repaired = observation(entry(in_use=True), held={KEY: DAMAGED}, works={KEY: DOWNLOAD}, labels=both())
    assert label_changes(repaired) == {}


def test_downloads_of_an_earlier_agent_are_forgotten_at_start() -> None:
    assert label_changes(observation(labels=[FETCHING], synced=False, model_node=None)) == {FETCHING: None}


def test_only_labels_of_larder_count_as_its_own() -> None:
    theirs = {"kubernetes.io/hostname": "n", "snapshot.larder.dev.x/y": "1", "model-cache-ready-x.org/y": "true"}
    found = own_labels(theirs | {READY: "true", SNAPSHOT: "true", FETCHING: "true"})
    assert set(found) == {READY, SNAPSHOT, FETCHING}
