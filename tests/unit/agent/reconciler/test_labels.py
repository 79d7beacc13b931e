from agent.reconciler.labels import label_changes, own_labels
from agent.reconciler.observation import HeldSnapshot
from tests.builders.observations import DAMAGED, SOUND, both, entry, model_node, observation

KEY = ("llama", "r1")
READY, SNAPSHOT = both()


def test_a_complete_snapshot_that_is_wanted_gets_both_labels() -> None:
    assert label_changes(observation(entry(), held={KEY: SOUND})) == {READY: "true", SNAPSHOT: "true"}


def test_labels_that_are_there_are_not_set_again() -> None:
    assert label_changes(observation(entry(), held={KEY: SOUND}, labels=both())) == {}


def test_a_label_with_another_value_is_put_right() -> None:
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


def test_nothing_is_set_by_the_model_node_of_another_node() -> None:
    assert label_changes(observation(held={KEY: SOUND}, model_node=model_node([entry()], uid="other"))) == {}
    assert label_changes(observation(held={KEY: SOUND}, model_node=model_node([entry()], uid=""), node_uid="")) == {}


def test_a_snapshot_that_no_entry_names_keeps_its_labels_and_gets_none() -> None:
    assert label_changes(observation(held={KEY: SOUND}, labels=[SNAPSHOT])) == {}


def test_draining_drops_the_ready_label_alone() -> None:
    assert label_changes(observation(entry(state="Draining"), held={KEY: SOUND}, labels=both())) == {READY: None}


def test_absent_drops_both() -> None:
    dropped = label_changes(observation(entry(state="Absent"), held={KEY: SOUND}, labels=both()))
    assert dropped == {READY: None, SNAPSHOT: None}


def test_the_ready_label_stays_while_another_revision_bears_it_out() -> None:
    leaving, staying = entry(state="Absent"), entry(revision="r2")
    held = {KEY: SOUND, ("llama", "r2"): SOUND}
    labels = {*both(), *both(revision="r2")}
    assert label_changes(observation(leaving, staying, held=held, labels=labels)) == {SNAPSHOT: None}


def test_damage_drops_both_labels_unless_pods_use_the_snapshot() -> None:
    assert set(label_changes(observation(entry(), held={KEY: DAMAGED}, labels=both()))) == set(both())
    assert label_changes(observation(entry(in_use=True), held={KEY: DAMAGED}, labels=both())) == {}


def test_labels_go_when_the_whole_snapshot_is_gone_whoever_uses_it() -> None:
    assert set(label_changes(observation(entry(in_use=True), labels=both()))) == set(both())


def test_damage_under_use_never_sets_a_label() -> None:
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


def test_labels_of_others_are_not_ours() -> None:
    theirs = {"kubernetes.io/hostname": "n", "snapshot.larder.dev.x/y": "1", "model-cache-ready-x.org/y": "true"}
    found = own_labels(theirs | {READY: "true", SNAPSHOT: "true"})
    assert set(found) == {READY, SNAPSHOT}
