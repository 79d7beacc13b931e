from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.manager.actions import Requeue
from controller.nodes.decide import (
    ConfirmUnwanted,
    CreateModelNode,
    ListResourceSlices,
    ListUsers,
    ReplaceModelNode,
    WriteModelNode,
    decide,
    entries_to_confirm,
)
from controller.nodes.entry_states import RemovalTiming
from controller.nodes.view import NodeView, foreign_model_node_message
from controller.nodes.wanted import find_unplaced
from controller.placement.demand import Demand, Resolution
from controller.placement.groups import NodeLimits
from controller.placement.shares import ModelNodeCapacity
from controller.state.models.retained import RetainedObjects
from shared.api.model_node import Entry, EntryStatus, ModelNode, ModelNodeSpec, ModelNodeStatus
from shared.kube.objects import Meta
from tests.builders.demands import demand as any_demand

NOW = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
PACE = RemovalTiming(drain_s=30, users_s=30)
KEY = ("m", "r1")


def demand(name: str = "m", revision: str = "r1", **fields: Any) -> Demand:
    resolution = Resolution("hf://o/m@main", revision, "d" * 64, 100, 3)
    return any_demand(name, **({"uri": "hf://o/m@main", "resolution": resolution} | fields))


def view(*demands: Demand, spec: ModelNodeSpec | None = None, statuses: list[EntryStatus] | None = None) -> NodeView:
    found = None
    if spec is not None:
        status = ModelNodeStatus(node_uid="node-1", entries=statuses or [])
        found = ModelNode(metadata=Meta(name="n", uid="mn"), spec=spec, status=status)
    return NodeView(
        name="n",
        uid="node-1",
        demands=demands,
        declared_uids=frozenset(d.uid for d in demands),
        limits=NodeLimits(1000, 0),
        granted=True,
        model_node=found,
    )


def spec_of(*entries: Entry) -> ModelNodeSpec:
    return ModelNodeSpec(node_uid="node-1", storage_limit=1000, entries=list(entries))


def entry(state: str = "Present", since: datetime = NOW, **fields: Any) -> Entry:
    defaults: dict[str, Any] = {"id": "m", "revision": "r1", "uri": "hf://o/m@main", "manifest": "d" * 64, "size": 100}
    return Entry(state=state, since=since.strftime("%Y-%m-%dT%H:%M:%SZ"), **(defaults | fields))


def test_an_entry_is_marked_as_awaited_while_pods_wait_for_it() -> None:
    waiting = replace(view(demand(), spec=spec_of(entry(granted=True))), awaited=frozenset({KEY}))
    (write,) = decide(waiting, NOW, PACE)
    assert isinstance(write, WriteModelNode)
    assert [e.awaited for e in write.spec.entries] == [True]
    (write,) = decide(view(demand(), spec=write.spec), NOW, PACE)
    assert isinstance(write, WriteModelNode)
    assert [e.awaited for e in write.spec.entries] == [False]


def test_a_model_that_a_pod_waits_for_is_restored_from_the_entry_of_another_node() -> None:
    old, new = ("m", "r0"), demand(serving="r0")
    there = entry(revision="r0", manifest="e" * 64, size=7, in_use=True, priority=5, granted=True)
    seen = replace(view(new, spec=spec_of()), awaited=frozenset({old}), restored={old: there})
    (write,) = decide(seen, NOW, PACE)
    assert isinstance(write, WriteModelNode)
    first, second = write.spec.entries
    assert (first.key, first.manifest, first.size, first.awaited, first.priority) == (old, "e" * 64, 7, True, 0)
    assert (second.revision, second.awaited) == ("r1", False)
    unknown = replace(view(new, spec=spec_of()), awaited=frozenset({old}))
    (write,) = decide(unknown, NOW, PACE)
    assert isinstance(write, WriteModelNode)
    assert [e.revision for e in write.spec.entries] == ["r1"]


def test_an_old_revision_stays_while_it_is_held_for_pods_without_a_node() -> None:
    both = spec_of(entry(revision="r0", granted=True), entry(granted=True))
    new = demand(serving="r1")
    kept = next(a for a in decide(replace(view(new, spec=both), held={("m", "r0"): 42.0}), NOW, PACE))
    assert isinstance(kept, WriteModelNode)  # only the claims
    assert {e.state for e in kept.spec.entries} == {"Present"}
    again = replace(view(new, spec=kept.spec), held={("m", "r0"): 42.0})
    assert decide(again, NOW, PACE) == [Requeue(42.0)]
    assert decide(view(new, spec=kept.spec), NOW, PACE) == [ListUsers()]


def entry_status(phase: str, observed: str = "Present", key: tuple[str, str] = KEY) -> EntryStatus:
    return EntryStatus(id=key[0], revision=key[1], phase=phase, observed=observed)


def written(actions: Sequence[object]) -> dict[tuple[str, str], Entry]:
    specs = [a.spec for a in actions if isinstance(a, WriteModelNode | CreateModelNode)]
    assert len(specs) == 1, actions
    return {e.key: e for e in specs[0].entries}


def test_a_wanted_model_is_added_to_a_node_with_a_grant() -> None:
    entries = written(decide(view(demand()), NOW, PACE))
    assert entries[KEY].state == "Present"
    assert entries[KEY].granted
    assert [c.uid for c in entries[KEY].claims] == ["uid-m"]
    assert (entries[KEY].size, entries[KEY].manifest) == (100, "d" * 64)


def test_nothing_is_written_when_everything_is_as_desired() -> None:
    first = written(decide(view(demand()), NOW, PACE))
    assert decide(view(demand(), spec=spec_of(*first.values())), NOW + timedelta(hours=1), PACE) == []


def test_two_objects_share_one_entry_and_it_stays_for_the_last() -> None:
    cache = demand()
    model = demand(uid="uid-model", kind="ClusterBaseModel", created="2026-01-02T00:00:00Z")
    both = written(decide(view(cache, model), NOW, PACE))[KEY]
    assert [c.uid for c in both.claims] == ["uid-m", "uid-model"]
    left = written(decide(view(model, spec=spec_of(both)), NOW, PACE))[KEY]
    assert left.state == "Present"
    assert [c.uid for c in left.claims] == ["uid-model"]


def test_an_unresolved_model_creates_no_entry() -> None:
    assert decide(view(demand(resolution=None), spec=spec_of()), NOW, PACE) == []


def test_a_claim_never_creates_an_entry() -> None:
    # placement excludes claims, and a demand on a claim has no resolution
    assert decide(view(demand(on_claim=True, resolution=None), spec=spec_of()), NOW, PACE) == []


def test_users_are_listed_before_an_entry_is_drained() -> None:
    assert decide(view(spec=spec_of(entry()), statuses=[entry_status("Ready")]), NOW, PACE) == [ListUsers()]


def test_a_used_entry_stays_and_is_checked_again() -> None:
    seen = replace(view(spec=spec_of(entry()), statuses=[entry_status("Ready")]), users={KEY: ("ns/pod",)})
    actions = decide(seen, NOW, PACE)
    assert written(actions)[KEY].in_use
    assert Requeue(30) in actions


def test_an_unused_entry_drains_and_is_then_removed() -> None:
    present = replace(view(spec=spec_of(entry()), statuses=[entry_status("Ready")]), users={})
    draining = written(decide(present, NOW, PACE))[KEY]
    assert draining.state == "Draining"

    silent = view(spec=spec_of(draining), statuses=[entry_status("Ready")])
    assert decide(silent, NOW + timedelta(seconds=60), PACE) == []  # the agent's acknowledgement arrives as a change

    seen = view(spec=spec_of(draining), statuses=[entry_status("Draining", "Draining")])
    acknowledged = replace(seen, acknowledged={KEY: NOW + timedelta(seconds=5)})
    assert decide(acknowledged, NOW + timedelta(seconds=10), PACE) == [Requeue(25)]

    late = NOW + timedelta(seconds=35)
    assert decide(acknowledged, late, PACE) == [ListUsers()]
    unused = replace(acknowledged, users={})
    assert decide(unused, late, PACE) == [ConfirmUnwanted()]
    absent = written(decide(replace(unused, unwanted=frozenset({KEY})), late, PACE))[KEY]
    assert absent.state == "Absent"

    gone = view(spec=spec_of(absent), statuses=[entry_status("Absent", "Absent")])
    assert written(decide(gone, late, PACE)) == {}


@pytest.mark.parametrize("state", ["Present", "Draining", "Absent"])
def test_an_entry_is_dropped_from_a_node_that_never_had_an_agent(state: str) -> None:
    bare = ModelNode(metadata=Meta(name="n", uid="mn"), spec=spec_of(entry(state)))
    seen = replace(view(), model_node=bare)
    assert written(decide(replace(seen, users={}), NOW, PACE)) == {}
    if state == "Present":
        assert decide(seen, NOW, PACE) == [ListUsers()]
        used = replace(seen, users={KEY: ("default/p",)})
        assert written(decide(used, NOW, PACE))[KEY].in_use


def test_a_drain_continues_once_no_new_claim_can_get_the_model() -> None:
    draining = view(spec=spec_of(entry("Draining")), statuses=[entry_status("Draining", "Draining")])
    offered = replace(draining, offered={KEY: NOW})
    assert decide(offered, NOW, PACE) == [ListResourceSlices()]
    assert decide(replace(offered, slices_read=True), NOW, PACE) == [Requeue(1.0)]
    closed = replace(draining, slices_read=True, acknowledged={KEY: NOW})
    assert decide(closed, NOW, PACE) == [Requeue(PACE.drain_s)]
    assert decide(closed, NOW + timedelta(seconds=PACE.drain_s), PACE) == [ListUsers()]


def test_an_entry_stays_while_a_live_read_finds_an_object_that_wants_it() -> None:
    seen = view(spec=spec_of(entry("Draining")), statuses=[entry_status("Draining", "Draining")])
    wanted = replace(seen, acknowledged={KEY: NOW}, users={}, unwanted=frozenset())
    assert decide(wanted, NOW + timedelta(seconds=31), PACE) == [Requeue(30)]


def test_users_found_after_the_drain_make_the_entry_present_again() -> None:
    seen = view(spec=spec_of(entry("Draining")), statuses=[entry_status("Draining", "Draining")])
    used = replace(seen, acknowledged={KEY: NOW}, users={KEY: ("ns/late",)})
    back = written(decide(used, NOW + timedelta(seconds=31), PACE))[KEY]
    assert (back.state, back.in_use) == ("Present", True)


def test_the_serving_revision_stays_while_a_new_source_is_not_resolved() -> None:
    moved = demand(uri="hf://o/new@main", resolution=None, serving="r1")
    before = entry(claims=[], granted=True)
    kept = written(decide(view(moved, spec=spec_of(before), statuses=[entry_status("Ready")]), NOW, PACE))[KEY]
    assert (kept.state, kept.uri) == ("Present", before.uri)


def test_a_draining_entry_that_is_wanted_again_becomes_present() -> None:
    back = written(decide(view(demand(), spec=spec_of(entry("Draining"))), NOW, PACE))[KEY]
    assert back.state == "Present"


def test_a_model_wanted_again_during_its_removal_waits_for_its_end() -> None:
    going = view(demand(), spec=spec_of(entry("Absent")), statuses=[entry_status("Draining", "Draining")])
    assert written(decide(replace(going, limits=NodeLimits(5, 0)), NOW, PACE))[KEY].state == "Absent"
    gone = view(demand(), spec=spec_of(entry("Absent")), statuses=[entry_status("Absent", "Absent")])
    assert written(decide(gone, NOW, PACE))[KEY].state == "Present"


def test_a_reserved_entry_outlives_its_object() -> None:
    kept = written(decide(view(demand(reserved=True)), NOW, PACE))[KEY]
    assert kept.reserved
    after = written(decide(view(spec=spec_of(kept), statuses=[entry_status("Ready")]), NOW, PACE))[KEY]
    assert (after.state, after.claims) == ("Present", [])
    assert decide(view(spec=spec_of(after), statuses=[entry_status("Ready")]), NOW, PACE) == []


def test_a_pin_alone_does_not_outlive_its_object() -> None:
    pinned = written(decide(view(demand(pinned=True)), NOW, PACE))[KEY]
    assert (pinned.pinned, pinned.reserved) == (True, False)
    assert decide(view(spec=spec_of(pinned), statuses=[entry_status("Ready")]), NOW, PACE) == [ListUsers()]


def test_a_reserved_entry_is_dropped_when_the_node_leaves_but_the_object_stays() -> None:
    kept = written(decide(view(demand(reserved=True)), NOW, PACE))[KEY]
    left = replace(view(spec=spec_of(kept), statuses=[entry_status("Ready")]), declared_uids=frozenset({"uid-m"}))
    assert decide(left, NOW, PACE) == [ListUsers()]


def test_a_moved_branch_keeps_the_serving_revision_beside_the_new() -> None:
    old = entry(claims=[])
    moved = demand(revision="r2", serving="r1")
    both = written(decide(view(moved, spec=spec_of(old), statuses=[entry_status("Ready")]), NOW, PACE))
    assert {k: e.state for k, e in both.items()} == {KEY: "Present", ("m", "r2"): "Present"}
    assert both[KEY].manifest == old.manifest


def test_a_node_that_never_had_the_old_revision_does_not_fetch_it() -> None:
    assert written(decide(view(demand(revision="r2", serving="r1"), spec=spec_of()), NOW, PACE)).keys() == {("m", "r2")}


def test_another_nodes_model_node_is_replaced_and_its_status_ignored() -> None:
    seen = view(demand(), spec=ModelNodeSpec(node_uid="node-0"))
    assert seen.model_node is not None
    owner = [{"kind": "Node", "name": "n", "uid": "node-0"}]
    ours = msgspec.structs.replace(seen.model_node, metadata=Meta(name="n", uid="mn", owner_references=owner))
    assert decide(replace(seen, model_node=ours), NOW, PACE) == [ReplaceModelNode()]


def test_another_nodes_model_node_that_larder_did_not_make_is_left_alone() -> None:
    seen = view(demand(), spec=ModelNodeSpec(node_uid="node-0", entries=[entry(state="Absent")]))
    assert decide(seen, NOW, PACE) == []
    assert seen.model_node is not None
    assert "delete it (kubectl delete modelnode n)" in foreign_model_node_message(seen.model_node, "node-1")


def test_unknown_snapshots_are_drained_only_if_live_reads_find_no_object_or_user() -> None:
    unknown = view(spec=spec_of(), statuses=[entry_status("Unknown", "")])
    assert decide(unknown, NOW, PACE) == [ConfirmUnwanted()]
    confirmed = replace(unknown, unwanted=frozenset({KEY}))
    assert decide(confirmed, NOW, PACE) == [ListUsers()]
    assert written(decide(replace(confirmed, users={}), NOW, PACE))[KEY].state == "Draining"
    assert decide(replace(confirmed, users={KEY: ("ns/p",)}), NOW, PACE) == [Requeue(30)]
    assert decide(replace(unknown, unwanted=frozenset()), NOW, PACE) == []


def test_an_unknown_snapshot_of_a_wanted_model_becomes_present() -> None:
    taken = view(demand(), spec=spec_of(), statuses=[entry_status("Unknown", "")])
    assert written(decide(taken, NOW, PACE))[KEY].state == "Present"


def test_an_entry_in_an_unknown_state_is_left_alone() -> None:
    odd = replace(view(spec=spec_of(entry("Hibernating"))), users={})
    assert decide(odd, NOW, PACE) == []


@pytest.mark.parametrize("phase", ["Waiting", "Ready"])
def test_a_waiting_or_ready_entry_loses_a_grant_that_no_longer_holds(phase: str) -> None:
    reported = view(demand(), spec=spec_of(entry(granted=True)), statuses=[entry_status(phase)])
    assert not written(decide(replace(reported, granted=False), NOW, PACE))[KEY].granted


def test_at_most_a_hundred_unknown_snapshots_are_confirmed_at_a_time() -> None:
    keys = [("m", f"r{i:04d}") for i in range(4000)]
    reported = view(spec=spec_of(), statuses=[entry_status("Unknown", "", key) for key in keys])
    asked = entries_to_confirm(reported, NOW, PACE)
    assert len(asked) == 100
    seen = replace(reported, unwanted=asked, users={})
    entries = written(decide(seen, NOW, PACE))
    assert {e.state for e in entries.values()} == {"Draining"}
    assert len(entries) == 100
    later = view(spec=spec_of(*entries.values()), statuses=[entry_status("Unknown", "", key) for key in keys])
    assert entries_to_confirm(later, NOW, PACE) == frozenset(), "no more until some are removed"
    left = view(spec=spec_of(*list(entries.values())[:40]), statuses=[entry_status("Unknown", "", key) for key in keys])
    assert len(entries_to_confirm(left, NOW, PACE)) == 60


def test_at_most_a_hundred_drained_entries_are_confirmed_at_a_time() -> None:
    entries = [entry("Draining", revision=f"r{i:04d}") for i in range(250)]
    drained = dict.fromkeys((e.key for e in entries), NOW - timedelta(hours=1))
    going = replace(view(spec=spec_of(*entries)), acknowledged=drained, users={})
    asked = entries_to_confirm(going, NOW, PACE)
    assert len(asked) == 100
    after = written(decide(replace(going, unwanted=asked), NOW, PACE))
    assert {key for key, e in after.items() if e.state == "Absent"} == asked
    assert len(after) == 250


HELD = RetainedObjects(frozenset({"uid-m"}), frozenset({"m"}))


@pytest.mark.parametrize("state", ["Present", "Draining"])
def test_a_held_entry_stays_unchanged(state: str) -> None:
    (claimed,) = written(decide(view(demand()), NOW, PACE)).values()
    listed = msgspec.structs.replace(claimed, state=state)
    held = replace(
        view(spec=spec_of(listed), statuses=[entry_status("Ready", state)]), retained=HELD, acknowledged={KEY: NOW}
    )
    for moment in (NOW, NOW + timedelta(hours=1)):
        assert decide(held, moment, PACE) == []
    assert decide(replace(held, retained=RetainedObjects()), NOW, PACE) != [], "the entry stays only because it is held"


def test_a_held_entry_gets_no_grant_of_its_own() -> None:
    (claimed,) = written(decide(view(demand()), NOW, PACE)).values()
    held = replace(view(spec=spec_of(claimed)), retained=HELD, granted=False)
    assert not written(decide(held, NOW, PACE))[KEY].granted


def test_a_removed_entry_is_dropped_even_if_its_object_is_held() -> None:
    (claimed,) = written(decide(view(demand()), NOW, PACE)).values()
    going = msgspec.structs.replace(claimed, state="Absent")
    held = replace(view(spec=spec_of(going), statuses=[entry_status("Absent", "Absent")]), retained=HELD)
    assert written(decide(held, NOW, PACE)) == {}


def test_unlisted_files_of_held_objects_are_not_confirmed_for_removal() -> None:
    other = ("other", "r1")
    reported = view(spec=spec_of(), statuses=[entry_status("Unknown", ""), entry_status("Unknown", "", other)])
    assert entries_to_confirm(replace(reported, retained=HELD), NOW, PACE) == {other}


states = st.sampled_from(["Present", "Draining", "Absent", "Odd"])
phases = st.sampled_from(["Pending", "Ready", "Failed", "Draining", "Absent", "Repairing", "Other"])


ages = st.none() | st.integers(0, 100)


@given(states, phases, states, ages, st.booleans(), st.booleans(), st.booleans())
def test_entries_become_absent_only_after_live_reads_of_pods_and_objects(
    state: str,
    phase: str,
    observed: str,
    acknowledged_s: int | None,
    wanted: bool,  # noqa: FBT001 - drawn
    used: bool,  # noqa: FBT001 - drawn
    proved: bool,  # noqa: FBT001 - drawn
) -> None:
    demands = (demand(),) if wanted else ()
    seen = view(*demands, spec=spec_of(entry(state)), statuses=[entry_status(phase, observed)])
    if acknowledged_s is not None:
        seen = replace(seen, acknowledged={KEY: NOW - timedelta(seconds=acknowledged_s)})
    for users in (None, {KEY: ("ns/p",)} if used else {}):
        for unwanted in (None, frozenset({KEY}) if proved else frozenset[tuple[str, str]]()):
            actions = decide(replace(seen, users=users, unwanted=unwanted), NOW, PACE)
            after = [e for a in actions if isinstance(a, WriteModelNode) for e in a.spec.entries]
            if state != "Absent" and any(e.state == "Absent" for e in after):
                assert users == {}
                assert unwanted == frozenset({KEY})
                assert not wanted
                assert state == "Draining"
                assert acknowledged_s is not None
                assert acknowledged_s >= PACE.drain_s
            if actions and isinstance(actions[0], WriteModelNode) and not after:
                assert (state, phase, observed) == ("Absent", "Absent", "Absent")


def test_a_spec_round_trips() -> None:
    spec = spec_of(entry(claims=[]))
    assert msgspec.convert(msgspec.to_builtins(spec), ModelNodeSpec) == spec


def of_namespace(namespace: str, index: int, **fields: Any) -> Demand:
    name = f"m{index:04}"
    return demand(f"{namespace}_{name}", namespace=namespace, kind="BaseModel", **fields)


def crowded(view: NodeView, capacity: ModelNodeCapacity) -> NodeView:
    return replace(view, unplaced=find_unplaced(view, NOW, capacity))


def test_more_models_than_a_model_node_takes_stop_neither_placement_nor_removal() -> None:
    gone = entry(id="gone", claims=[])
    listed = view(*(of_namespace("a", i) for i in range(2001)), spec=spec_of(gone))
    entries = written(decide(replace(crowded(listed, ModelNodeCapacity()), users={}), NOW, PACE))
    assert entries["gone", "r1"].state == "Draining"
    assert len(entries) == 500
    assert len(msgspec.json.encode(list(entries.values()))) < 600 * 1024


def test_listed_models_stay_and_new_ones_are_added_oldest_first_per_namespace() -> None:
    capacity = ModelNodeCapacity(10, 10**6)
    first = written(decide(crowded(view(*(of_namespace("a", i) for i in range(20))), capacity), NOW, PACE))
    assert [key[0] for key in first] == [f"a_m{i:04}" for i in range(5)]
    more = view(*(of_namespace(n, i) for n in "abc" for i in range(20)), spec=spec_of(*first.values()))
    second = written(decide(crowded(more, capacity), NOW, PACE))
    assert first.keys() <= second.keys()
    assert {key[0] for key in second.keys() - first.keys()} == {"b_m0000", "b_m0001", "c_m0000"}


def test_the_serving_revision_stays_listed_if_the_new_one_has_no_place() -> None:
    capacity = ModelNodeCapacity(2, 10**6)
    here = [entry(id="a_m0000", revision="old"), entry(id="a_m0001", revision="r1")]
    reported = [entry_status("Ready", key=("a_m0000", "old")), entry_status("Ready", key=("a_m0001", "r1"))]
    demands = of_namespace("a", 0, revision="new", serving="old"), of_namespace("a", 1)
    seen = crowded(view(*demands, spec=spec_of(*here), statuses=reported), capacity)
    assert list(seen.unplaced) == [("a_m0000", "new")]
    assert written(decide(seen, NOW, PACE)).keys() == {("a_m0000", "old"), ("a_m0001", "r1")}
