"""The disk and the labels of the Node follow the ModelNode."""

import hashlib
import random
import shutil
import time

import msgspec

from rig.hub.faults import Refuse
from shared.api.model_node import Entry
from shared.names import ready_label, snapshot_label
from tests.integration.agent.node_under_test import Bench, Model
from tests.integration.agent.sentinel import Sentinel

WEIGHTS = random.Random(3).randbytes(2_000_000)
FILES = {"config.json": b'{"a": 1}', "model.safetensors": WEIGHTS}
SOME_SCANS_S = 2.0


def ready(bench: Bench, **fields: object) -> Model:
    """Return a model that an agent holds."""
    model = bench.add_model("llama", FILES, **fields)
    bench.want(model.entry)
    bench.start()
    bench.wait_phase(model, "Ready")
    return model


def in_state(entry: Entry, state: str) -> Entry:
    """Return the entry with another state."""
    return msgspec.structs.replace(entry, state=state)


class TestDamage:
    def test_the_labels_are_removed_until_missing_files_are_repaired(self, bench: Bench) -> None:
        model = ready(bench)
        bench.hub.faults.add(Refuse(503))
        bench.drop_blobs()
        bench.damage(model, "model.safetensors").unlink()
        bench.wait_phase(model, "Repairing")
        bench.wait_for(lambda: bench.labels() == set(), "the labels to be gone")

        bench.hub.faults.clear()
        bench.wait_phase(model, "Ready")
        assert bench.is_complete(model)
        assert bench.has_labels(model)

    def test_only_truncated_files_are_fetched_again(self, bench: Bench) -> None:
        model = ready(bench)
        bench.hub.journal.clear()
        bench.damage(model, "config.json").write_bytes(b"{")
        bench.wait_for(lambda: bench.count("snapshot_damaged") == 1, "the damage to be noticed")
        bench.wait_phase(model, "Ready")
        bench.wait_for(lambda: bench.is_complete(model), "complete files")
        assert bench.hub.journal.requests("*config.json", method="GET")
        assert not bench.hub.journal.requests(f"*{hashlib.sha256(WEIGHTS).hexdigest()}", method="GET")

    def test_a_damaged_model_in_use_keeps_its_labels_while_it_is_repaired(self, bench: Bench) -> None:
        model = self._used(bench)
        bench.hub.faults.add(Refuse(503))
        with Sentinel(bench, model) as sentinel:
            bench.damage(model, "model.safetensors").write_bytes(b"short")
            bench.wait_phase(model, "Repairing")
            time.sleep(SOME_SCANS_S)  # time in which a label could be removed
            bench.hub.faults.clear()
            bench.wait_phase(model, "Ready")
        assert sentinel.unlabelled == 0
        assert bench.is_complete(model)

    @staticmethod
    def _used(bench: Bench) -> Model:
        model = ready(bench)
        bench.want(msgspec.structs.replace(model.entry, in_use=True, granted=False))
        generation = bench.model_node().metadata.generation
        bench.wait_for(
            lambda: bench.model_node().status.observed_generation == generation, "the agent to know its users"
        )
        return model

    def test_a_snapshot_that_disappears_loses_its_labels_and_is_fetched_again(self, bench: Bench) -> None:
        model = ready(bench, in_use=True)
        bench.hub.faults.add(Refuse(503))
        bench.drop_blobs()
        bench.snapshot(model).chmod(0o755)
        bench.snapshot(model).rename(bench.state / "gone")  # in one step, so that no file is repaired meanwhile
        bench.wait_for(lambda: bench.labels() == set(), "the labels to be gone")
        bench.hub.faults.clear()
        bench.wait_for(lambda: bench.has_labels(model), "the labels")
        assert bench.is_complete(model)

    def test_a_removed_file_is_restored_from_its_blob_without_the_source(self, bench: Bench) -> None:
        model = ready(bench)
        bench.hub.journal.clear()
        bench.damage(model, "model.safetensors").unlink()
        bench.wait_for(lambda: bench.count("snapshot_complete") == 2, "the repair")
        assert bench.is_complete(model)
        assert bench.hub.journal.requests() == []


class TestStart:
    def test_intact_snapshots_are_adopted_at_once_and_their_labels_never_flap(self, bench: Bench) -> None:
        model = ready(bench)
        bench.agents[-1].kill()
        bench.hub.journal.clear()
        with Sentinel(bench, model) as sentinel:
            bench.start()
            bench.wait_phase(model, "Ready")
            time.sleep(SOME_SCANS_S)  # time in which a label could be removed
        assert sentinel.unlabelled == 0
        assert sentinel.lies == []
        assert bench.hub.journal.requests() == []
        assert bench.count("download_started") == 1

    def test_an_agent_that_finds_an_empty_store_removes_the_labels_first(self, bench: Bench) -> None:
        model = ready(bench)
        before = bench.model_node().status.store_id
        bench.agents[-1].kill()
        shutil.move(bench.root, bench.state / "old")
        bench.hub.faults.add(Refuse(503))
        bench.start()
        assert bench.labels() == set()
        bench.wait_for(lambda: bench.model_node().status.store_id not in ("", before), "the new store to be reported")

        bench.hub.faults.clear()
        bench.wait_for(lambda: bench.is_complete(model) and bench.has_labels(model), "the model on the new disk")
        bench.wait_phase(model, "Ready")

    def test_an_agent_that_finds_damage_at_its_start_removes_the_labels_before_it_is_ready(self, bench: Bench) -> None:
        model = ready(bench)
        bench.agents[-1].kill()
        bench.damage(model, "model.safetensors").unlink()
        bench.drop_blobs()
        bench.hub.faults.add(Refuse(503))
        bench.start()
        assert bench.labels() == set()
        bench.wait_phase(model, "Repairing")
        bench.hub.faults.clear()
        bench.wait_phase(model, "Ready")

    def test_a_recreated_node_gets_labels_only_once_its_model_node_names_the_new_uid(self, bench: Bench) -> None:
        model = ready(bench)
        old_uid = bench.node_uid()
        bench.api.delete(f"/api/v1/nodes/{bench.node}")
        bench.create_node()
        bench.wait_for(lambda: bench.count("node_replaced") == 1, "the new Node to be seen")
        assert bench.labels() == set()
        bench.want(model.entry, node_uid=old_uid)
        time.sleep(SOME_SCANS_S)  # time in which a label could be added
        assert bench.labels() == set()

        bench.want(model.entry)
        bench.wait_for(lambda: bench.has_labels(model), "the labels on the new Node")
        assert bench.node_uid() != old_uid
        bench.wait_for(lambda: bench.model_node().status.node_uid == bench.node_uid(), "the new Node to be reported")
        bench.wait_phase(model, "Ready")


class TestRemoval:
    def test_a_drained_model_loses_its_labels_files_and_status(self, bench: Bench) -> None:
        model = ready(bench)
        bench.want(in_state(model.entry, "Draining"))
        bench.wait_phase(model, "Draining")
        status = bench.status(model.entry)
        assert status is not None
        assert status.observed == "Draining"
        assert bench.labels() == {snapshot_label(*model.entry.key)}
        assert bench.is_complete(model)

        bench.want(in_state(model.entry, "Absent"))
        bench.wait_phase(model, "Absent")
        assert bench.labels() == set()
        assert not bench.snapshot(model).exists()
        assert list((bench.root / "blobs" / "sha256").iterdir()) == []

        bench.want()
        bench.wait_for(lambda: bench.model_node().status.entries == [], "the status to go with the entry")

    def test_a_draining_model_that_is_wanted_again_is_ready_without_a_transfer(self, bench: Bench) -> None:
        model = ready(bench)
        bench.want(in_state(model.entry, "Draining"))
        bench.wait_phase(model, "Draining")
        bench.hub.journal.clear()
        bench.want(model.entry)
        bench.wait_phase(model, "Ready")
        assert bench.labels() == {ready_label("llama"), snapshot_label(*model.entry.key)}
        assert bench.hub.journal.requests() == []

    def test_removing_a_model_keeps_the_files_that_another_shares(self, bench: Bench) -> None:
        first = bench.add_model("first", FILES)
        bench.want(first.entry)
        bench.start()
        bench.wait_phase(first, "Ready")
        second = Model(msgspec.structs.replace(first.entry, id="second"), first.manifest, FILES)
        bench.want(first.entry, second.entry)
        bench.wait_phase(second, "Ready")
        bench.want(in_state(first.entry, "Absent"), second.entry)
        bench.wait_phase(first, "Absent")
        assert not bench.snapshot(first).exists()
        assert bench.is_complete(second)
        assert bench.labels() == {ready_label("second"), snapshot_label(*second.entry.key)}

    def test_the_first_download_can_be_cancelled(self, bench: Bench) -> None:
        model = bench.add_model("llama", FILES)
        bench.want(model.entry, bandwidth_limit=50_000)  # forty seconds, so that it is cancelled while it runs
        bench.start()
        bench.wait_phase(model, "Downloading")
        bench.want(in_state(model.entry, "Absent"), bandwidth_limit=50_000)
        bench.wait_phase(model, "Absent")
        assert not bench.snapshot(model).exists()
        bench.wait_for(lambda: list((bench.root / "partial").iterdir()) == [], "no partial files")


class TestNothingIsDeleted:
    def test_nothing_is_deleted_when_the_list_is_empty(self, bench: Bench) -> None:
        model = ready(bench)
        bench.want()
        bench.wait_phase(model, "Unknown")
        self.assert_kept(bench, model)

    def test_nothing_is_deleted_for_a_model_node_of_another_node(self, bench: Bench) -> None:
        model = ready(bench)
        bench.want(in_state(model.entry, "Absent"), node_uid="00000000-0000-0000-0000-000000000000")
        self.assert_kept(bench, model)
        bench.want(in_state(model.entry, "Absent"), node_uid="")
        self.assert_kept(bench, model)

    def test_nothing_is_deleted_when_the_model_node_is_deleted(self, bench: Bench) -> None:
        model = ready(bench)
        bench.api.delete(f"/apis/larder.dev/v1alpha1/modelnodes/{bench.node}")
        self.assert_kept(bench, model)
        bench.want(model.entry)
        bench.wait_phase(model, "Ready")

    def test_nothing_is_deleted_for_an_unknown_state(self, bench: Bench) -> None:
        model = ready(bench)
        bench.want(in_state(model.entry, "Frozen"))
        bench.wait_phase(model, "Unknown", "UnknownState")
        self.assert_kept(bench, model)

    @staticmethod
    def assert_kept(bench: Bench, model: Model) -> None:
        time.sleep(SOME_SCANS_S)  # time in which something could be deleted
        assert bench.is_complete(model)
        assert bench.has_labels(model)


def test_a_model_on_a_claim_is_skipped(bench: Bench) -> None:
    model = bench.add_model("llama", FILES)
    on_claim = Entry(id="on-claim", revision="r1", uri="pvc://ns/claim/path", manifest="a" * 64, granted=True)
    bench.want(on_claim, model.entry)
    bench.start()
    bench.wait_phase(model, "Ready")
    assert bench.count("Skipping PVC storage type for model on-claim") == 1
    assert bench.labels() == bench.expected_labels(model)
    assert bench.status(on_claim) is None


def test_downloads_run_one_at_a_time_with_a_single_slot(bench: Bench) -> None:
    models = [bench.add_model(f"m{i}", {"model.bin": WEIGHTS + bytes([i])}, priority=i) for i in range(3)]
    bench.options += ("--downloads", "1")
    bench.want(*(m.entry for m in models))
    bench.start()
    for model in models:
        bench.wait_phase(model, "Ready")
    done = [e["model"] for e in bench.events() if e.get("event") == "snapshot_complete"]
    assert sorted(done) == ["m0", "m1", "m2"]
    running = 0
    for event in bench.events():
        running += {"download_started": 1, "snapshot_complete": -1}.get(str(event.get("event")), 0)
        assert running <= 1
