"""Which unpacked snapshots are read, what an agent takes over from its predecessor, and the limit of the status."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from agent.reconciler.actions import ReadSnapshotMetadata
from agent.reconciler.decide import decide, next_due_s
from agent.reconciler.observation import HeldSnapshot, Observation
from agent.reconciler.state_cache import StateCache
from agent.reconciler.status import entry_statuses, fit_size
from shared.api.model_node import EntryStatus, ModelNodeStatus
from shared.api.unpacked_metadata import UnpackedMetadata, UnpackedValues
from shared.metadata.reading.attempts import identity_of_files
from tests.builders.observations import DIGEST, UID, both, entry, model_node, observation

KEY = ("llama", "r1")
UNPACKED = HeldSnapshot(DIGEST, (), "digest", unpacked=True)
IDENTITY = identity_of_files(DIGEST)
READ = UnpackedMetadata(identity=IDENTITY, values=UnpackedValues(model_type="llama"))
KILLED = UnpackedMetadata(identity=IDENTITY, attempts=1, reason="MetadataInterrupted")


def ready(**fields: Any) -> Observation:
    """A node that has an unpacked model Ready."""
    return observation(entry(), **({"held": {KEY: UNPACKED}, "labels": both()} | fields))


def reads_metadata(seen: Observation) -> bool:
    return ReadSnapshotMetadata(entry()) in decide(seen)


def test_a_ready_model_that_was_unpacked_is_read() -> None:
    assert reads_metadata(ready())


@pytest.mark.parametrize(
    "fields",
    [
        {"held": {KEY: replace(UNPACKED, unpacked=False)}},
        {"held": {KEY: replace(UNPACKED, damaged=("config.json",))}},
        {"held": {KEY: replace(UNPACKED, manifest="b" * 64)}},
        {"held": {}},
        {"labels": both()[1:]},
        {"reading_metadata": ("other", "r1")},
        {"synced": False},
        {"metadata": {KEY: READ}},
        {"metadata": {KEY: msgspec.structs.replace(KILLED, reason="MetadataFailed")}},
        {"metadata": {KEY: KILLED}, "metadata_due": {KEY: 100.5}},
        {"model_node": model_node([entry(state="Draining")])},
    ],
)  # fmt: skip
def test_snapshots_that_are_plain_incomplete_or_already_read_are_not_read_again(fields: dict[str, Any]) -> None:
    assert not any(isinstance(action, ReadSnapshotMetadata) for action in decide(ready(**fields)))


def test_a_snapshot_is_read_again_by_another_reader_or_after_the_pause_of_an_interruption() -> None:
    assert reads_metadata(ready(metadata={KEY: msgspec.structs.replace(READ, identity="of another reader")}))
    waiting = ready(metadata={KEY: KILLED}, metadata_due={KEY: 150.0})
    assert next_due_s(waiting) == 150.0
    assert reads_metadata(replace(waiting, now_s=150.0))


def test_only_one_snapshot_is_read_at_a_time() -> None:
    seen = ready(
        model_node=model_node([entry(), entry("qwen")]), held={KEY: UNPACKED, ("qwen", "r1"): UNPACKED},
        labels=(*both(), *both("qwen")),
    )  # fmt: skip
    assert len([action for action in decide(seen) if isinstance(action, ReadSnapshotMetadata)]) == 1


def test_metadata_is_reported_with_its_entry_unless_the_files_have_changed() -> None:
    assert [s.metadata for s in entry_statuses(ready(metadata={KEY: READ}))] == [READ]
    other = {KEY: replace(UNPACKED, manifest="b" * 64)}
    assert [s.metadata for s in entry_statuses(ready(metadata={KEY: READ}, held=other))] == [None]


def reported(found: UnpackedMetadata, node_uid: str = UID) -> StateCache:
    """A cache that has received a ModelNode with the status of an earlier agent."""
    cache, status = StateCache(), EntryStatus(id="llama", revision="r1", metadata=found)
    known = ModelNodeStatus(node_uid=node_uid, entries=[status, msgspec.structs.replace(status, id="gone")])
    cache.set_model_node(msgspec.structs.replace(model_node([entry()]), status=known), 100.0)
    return cache


def test_an_agent_takes_over_the_metadata_of_its_predecessor_for_entries_still_wanted() -> None:
    cache = reported(READ)
    assert cache.metadata == {KEY: READ}
    cache.set_model_node(model_node([]), 101.0)
    assert cache.metadata == {}
    assert reported(READ, "another Node").metadata == {}


def test_an_interrupted_reading_keeps_its_pause_across_a_restart_of_the_agent() -> None:
    assert 100 + 7 * 60 < reported(KILLED).metadata_due[KEY] < 100 + 13 * 60


def test_a_status_with_too_many_entries_keeps_metadata_only_for_the_first() -> None:
    large = msgspec.structs.replace(READ, values=UnpackedValues(model_type="x" * 90, licence="y" * 90))
    entries = [EntryStatus(id=str(n), revision="r1", phase="Ready", metadata=large) for n in range(2000)]
    cut = fit_size(ModelNodeStatus(entries=entries))
    assert len(msgspec.json.encode(cut)) <= 384 * 1024
    kept = [e.metadata is not None for e in cut.entries]
    assert kept == sorted(kept, reverse=True)
    assert 500 < sum(kept) < 2000
    assert fit_size(ModelNodeStatus(entries=entries[:500])).entries == entries[:500]
