"""Evictions step by step, simulated with an agent in memory."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.manager.actions import Requeue
from controller.nodes.decide import Action, ConfirmUnwanted, ListUsers, WriteModelNode, decide, entries_to_confirm
from controller.nodes.entry_states import RemovalTiming
from controller.nodes.view import NodeView
from controller.placement.demand import Demand, Resolution
from controller.placement.groups import NodeLimits
from controller.state.keys import EntryKey
from controller.state.models.retained import RetainedObjects
from shared.api.model_node import Entry, EntryStatus, ModelNode, ModelNodeSpec, ModelNodeStatus
from shared.kube.objects import Meta
from tests.builders.demands import demand as any_demand

START = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
PACE = RemovalTiming(drain_s=30, users_s=30, idle_s=3600)


def stamp(now: datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def demand(name: str, size: int, **fields: Any) -> Demand:
    resolution = Resolution(f"hf://o/{name}@main", "r1", "d" * 64, size, 3)
    return any_demand(name, **({"resolution": resolution} | fields))


@dataclass
class Play:
    """Simulates a controller and an agent that alternate on one node. Sizes are in bytes; models share no files."""

    limit: int
    demands: dict[str, Demand] = field(default_factory=dict)
    used_by: dict[EntryKey, tuple[str, ...]] = field(default_factory=dict)  # as in a live list of pods
    watched: bool = True  # whether the cache has those pods too
    pinned_live: set[EntryKey] = field(default_factory=set)
    lags: bool = False  # figures are reported one step later than phases
    figures: int = 0
    evicts: bool = True
    refused: RetainedObjects = field(default_factory=RetainedObjects)
    now: datetime = START
    spec: ModelNodeSpec = field(default_factory=ModelNodeSpec)
    held: dict[EntryKey, int] = field(default_factory=dict)
    statuses: dict[EntryKey, EntryStatus] = field(default_factory=dict)
    acknowledged: dict[EntryKey, datetime] = field(default_factory=dict)
    evicted: Counter[str] = field(default_factory=Counter)
    lists: int = 0

    def want(self, name: str, size: int, **fields: Any) -> None:
        self.demands[name] = demand(name, size, **fields)

    @property
    def entries(self) -> dict[str, Entry]:
        return {e.id: e for e in self.spec.entries}

    def state(self, name: str) -> str:
        return self.entries[name].state

    def phase(self, name: str) -> str:
        return self.statuses[name, "r1"].phase

    def view(self) -> NodeView:
        used = self.figures if self.lags else sum(self.held.values())
        status = ModelNodeStatus(node_uid="node-1", used=used, disk_free=10**9, entries=list(self.statuses.values()))
        return NodeView(
            name="n",
            uid="node-1",
            demands=tuple(self.demands.values()),
            declared_uids=frozenset(d.uid for d in self.demands.values()),
            limits=NodeLimits(self.limit, 0, self.evicts),
            granted=True,
            model_node=ModelNode(metadata=Meta(name="n", uid="mn"), spec=self.spec, status=status),
            in_use=frozenset(self.used_by) if self.watched else frozenset(),
            acknowledged=dict(self.acknowledged),
            retained=self.refused,
        )

    def control(self) -> list[Action]:
        """Run one step of the controller."""
        view = self.view()
        actions = decide(view, self.now, PACE)
        while actions in ([ListUsers()], [ConfirmUnwanted()]):
            if actions == [ListUsers()]:
                self.lists += 1
                view = replace(view, users=dict(self.used_by))
            else:
                asked = entries_to_confirm(view, self.now, PACE)
                view = replace(view, unwanted=asked - self.pinned_live, protected=asked & self.pinned_live)
            actions = decide(view, self.now, PACE)
        for action in actions:
            if isinstance(action, WriteModelNode):
                self._note(action.spec)
                self.spec = action.spec
        return actions

    def _note(self, spec: ModelNodeSpec) -> None:
        before = {e.key: e.state for e in self.spec.entries}
        gone = [e for e in spec.entries if e.evicted_for and e.state == "Absent" and before.get(e.key) == "Draining"]
        for entry in gone:
            assert entry.key not in self.used_by
            assert not entry.pinned
            assert entry.key not in self.pinned_live
            self.evicted[entry.id] += 1
        if gone:
            shortage = max(s.shortage for s in self.statuses.values() if s.id == gone[0].evicted_for)
            assert 0 < shortage <= sum(self.held[e.key] for e in gone)

    def fill(self) -> None:
        """Run one step of the agent."""
        self.figures = sum(self.held.values())
        named = {e.key for e in self.spec.entries}
        self.statuses = {k: s for k, s in self.statuses.items() if k in named}
        for entry in sorted(self.spec.entries, key=lambda e: (-e.priority, e.since, e.key)):
            match entry.state:
                case "Present":
                    self._fetch(entry)
                case "Draining":
                    self._say(entry, "Draining")
                    self.acknowledged.setdefault(entry.key, self.now)
                case _:
                    self.held.pop(entry.key, None)
                    self._say(entry, "Absent")
        draining = {e.key for e in self.spec.entries if e.state == "Draining"}
        self.acknowledged = {k: at for k, at in self.acknowledged.items() if k in draining}
        assert sum(self.held.values()) <= self.limit

    def _fetch(self, entry: Entry) -> None:
        free = self.limit - sum(self.held.values())
        if entry.key in self.held or entry.size <= free:
            self.held[entry.key] = entry.size
            self._say(entry, "Ready")
        else:
            shortage = entry.size - free if entry.size <= self.limit else 0
            self._say(entry, "Failed", reason="InsufficientStorage", shortage=shortage)

    def _say(self, entry: Entry, phase: str, **more: Any) -> None:
        before = self.statuses.get(entry.key)
        since = before.since if before and before.phase == phase else stamp(self.now)
        reported = EntryStatus(
            id=entry.id, revision=entry.revision, phase=phase, observed=entry.state, since=since,
            frees=self.held.get(entry.key, 0),
        )  # fmt: skip
        self.statuses[entry.key] = msgspec.structs.replace(reported, **more)

    def go_on(self, turns: int = 8, step_s: float = 20) -> None:
        for _ in range(turns):
            self.control()
            self.fill()
            self.now += timedelta(seconds=step_s)


def full(**play: Any) -> Play:
    """A node that is full with one model, long unused, and another model that needs the space."""
    found = Play(100, **play)
    found.want("old", 90)
    found.go_on(2)
    found.now += timedelta(hours=2)
    found.want("new", 80)
    found.control()
    found.fill()
    return found


def test_the_idle_model_is_evicted_and_leaves_a_record() -> None:
    play = full()
    play.control()
    assert (play.state("old"), play.entries["old"].evicted_for) == ("Draining", "new")
    play.go_on()
    assert (play.phase("new"), play.state("old")) == ("Ready", "Absent")
    assert play.entries["old"].claims  # its object still wants it
    assert play.evicted == {"old": 1}


def test_nothing_is_evicted_if_the_group_forbids_eviction() -> None:
    play = full(evicts=False)
    play.go_on()
    assert (play.phase("old"), play.phase("new")) == ("Ready", "Failed")
    assert play.spec.eviction_policy == "Never"


def test_the_spec_carries_the_eviction_policy() -> None:
    assert full().spec.eviction_policy == "LeastRecentlyUsed"


def test_an_evicted_model_is_not_fetched_while_the_other_is_present() -> None:
    play = full()
    play.go_on(600, step_s=3600)
    assert (play.state("old"), play.phase("new")) == ("Absent", "Ready")
    assert sum(play.evicted.values()) == 1


def test_an_evicted_model_returns_once_there_is_space() -> None:
    play = full()
    play.go_on()
    play.limit = 180
    play.go_on()
    assert (play.phase("old"), play.phase("new")) == ("Ready", "Ready")
    assert play.entries["old"].evicted_for == ""


def test_an_evicted_model_returns_once_the_other_is_no_longer_wanted() -> None:
    play = full()
    play.go_on()
    del play.demands["new"]
    play.go_on(12)
    assert play.phase("old") == "Ready"


@pytest.mark.parametrize("change", [{"priority": 1}, {"pinned": True}])
def test_an_evicted_model_returns_if_its_object_gets_priority_or_a_pin(change: Mapping[str, Any]) -> None:
    play = full()
    play.go_on()
    play.want("old", 90, **change)
    play.control()
    assert play.state("old") == "Present"


def test_an_evicted_model_returns_if_another_object_requests_it() -> None:
    play = full()
    play.go_on()
    play.demands["second"] = replace(play.demands["old"], uid="uid-second", name="second")
    play.control()
    assert play.state("old") == "Present"


def test_an_evicted_model_does_not_return_with_a_lower_priority() -> None:
    play = full()
    play.go_on()
    play.want("old", 90, priority=-1)
    play.go_on()
    assert (play.state("old"), play.entries["old"].priority) == ("Absent", -1)


def test_an_eviction_under_way_is_cancelled_if_the_group_forbids_eviction() -> None:
    play = full()
    play.control()
    play.evicts = False
    play.control()
    assert (play.state("old"), play.entries["old"].evicted_for) == ("Present", "")


def test_an_evicted_model_is_wanted_again_if_the_group_forbids_eviction() -> None:
    play = full()
    play.go_on()
    play.evicts = False
    play.go_on()
    assert (play.state("old"), play.phase("old")) == ("Present", "Failed")


def test_an_eviction_is_cancelled_if_the_waiting_model_is_deleted() -> None:
    play = full()
    play.control()
    del play.demands["new"]
    play.go_on()
    assert (play.phase("old"), play.evicted) == ("Ready", Counter())


@pytest.mark.parametrize("watched", [True, False])
def test_a_victim_used_while_it_drains_is_kept(watched: bool) -> None:  # noqa: FBT001 - whether memory knows
    play = full(watched=watched)
    play.control()
    play.used_by[("old", "r1")] = ("ns/pod",)
    play.go_on()
    assert (play.state("old"), play.phase("new")) == ("Present", "Failed")
    assert play.entries["old"].in_use == watched
    assert bool(play.entries["old"].last_used) != watched
    assert play.evicted == {}


def test_no_eviction_begins_if_a_live_read_finds_a_user() -> None:
    play = full(watched=False)
    play.used_by[("old", "r1")] = ("ns/pod",)
    actions = play.control()
    assert play.state("old") == "Present"
    assert Requeue(PACE.users_s) in actions


def test_pods_are_not_listed_if_every_model_is_in_use() -> None:
    play = full()
    play.used_by[("old", "r1")] = ("ns/pod",)
    play.go_on(3)
    assert play.lists == 0


def test_a_pin_that_memory_has_not_seen_keeps_the_files() -> None:
    play = full()
    play.control()
    play.pinned_live.add(("old", "r1"))
    play.go_on(3)
    assert play.held[("old", "r1")] == 90


def test_two_models_without_space_are_served_in_turn_by_one_eviction() -> None:
    play = full()
    play.want("newer", 15)
    play.go_on(20)
    assert [play.phase(name) for name in ("new", "newer")] == ["Ready", "Ready"]
    assert play.evicted == {"old": 1}


def test_a_model_that_eviction_cannot_help_does_not_block_the_next() -> None:
    play = Play(100)
    play.want("used", 50)
    play.want("idle", 40)
    play.go_on(2)
    play.used_by[("used", "r1")] = ("ns/pod",)
    play.now += timedelta(hours=2)
    play.want("a-big", 95, priority=1)
    play.want("b-small", 45)
    play.go_on(12)
    assert (play.phase("a-big"), play.phase("b-small"), play.phase("used")) == ("Failed", "Ready", "Ready")


def test_a_model_that_can_never_fit_does_not_block_the_next() -> None:
    play = Play(100)
    play.want("old", 90)
    play.want("huge", 500, priority=1)
    play.go_on(2)
    play.now += timedelta(hours=2)
    play.want("new", 80)
    play.go_on()
    assert (play.phase("huge"), play.phase("new"), play.evicted) == ("Failed", "Ready", {"old": 1})


def test_a_model_that_can_never_fit_keeps_no_evicted_model_away() -> None:
    play = full()
    play.want("huge", 500)
    play.go_on()
    del play.demands["new"]
    play.go_on(12)
    assert (play.phase("huge"), play.phase("old")) == ("Failed", "Ready")


def test_a_batch_is_cancelled_if_the_waiting_model_can_no_longer_fit() -> None:
    play = full()
    play.control()
    play.want("new", 500)
    play.go_on()
    assert (play.state("old"), play.phase("old"), play.evicted) == ("Present", "Ready", Counter())


@pytest.mark.parametrize("change", [{"priority": 1}, {"pinned": True}])
def test_an_evicted_model_with_a_new_pin_or_priority_returns_after_the_current_eviction(
    change: Mapping[str, Any],
) -> None:
    play = Play(100)
    play.want("a", 50)
    play.go_on(2)
    play.want("b", 50)
    play.go_on(2)
    play.now += timedelta(hours=2)
    play.want("c", 50)
    play.go_on()
    assert play.evicted == {"a": 1}
    play.now += timedelta(hours=2)
    play.used_by[("c", "r1")] = ("ns/pod",)
    play.want("d", 50)
    play.go_on(2)
    assert play.state("b") == "Draining"
    play.want("a", 50, **change)
    play.control()
    assert play.state("a") == "Absent"  # one batch at a time
    play.go_on()
    assert play.state("a") == "Present"


def test_an_insufficient_plan_evicts_nothing_and_reports_the_evictable_bytes() -> None:
    play = full()
    play.want("old", 90, priority=1)
    play.want("low", 10, priority=-1)
    play.go_on(4)
    assert play.entries["new"].evictable == 10
    assert play.evicted == {}
    play.limit = 200
    play.go_on(4)
    assert (play.phase("new"), play.entries["new"].evictable) == ("Ready", 0)


def test_a_model_of_equal_priority_is_evicted_after_an_idle_hour() -> None:
    play = Play(100)
    play.want("old", 90)
    play.go_on(2)
    play.want("new", 80)
    play.control()
    play.fill()
    waits = [a.after_s for a in play.control() if isinstance(a, Requeue)]
    assert play.state("old") == "Present"
    assert 3000 < waits[0] <= 3600
    play.now += timedelta(seconds=waits[0])
    play.control()
    assert play.state("old") == "Draining"


def test_a_victim_whose_source_is_now_refused_stays_present() -> None:
    play = full()
    play.control()
    del play.demands["old"]
    play.refused = RetainedObjects(frozenset({"uid-old"}), frozenset({"old"}))
    play.go_on(4)
    assert (play.state("old"), play.phase("old"), play.entries["old"].evicted_for) == ("Present", "Ready", "")


def test_an_evicted_reserved_model_leaves_no_entry_once_its_object_is_deleted() -> None:
    play = full()
    play.want("old", 90, reserved=True)
    play.go_on()
    assert play.state("old") == "Absent"
    del play.demands["old"]
    play.go_on(2)
    assert "old" not in play.entries


def removal_during_a_shortage() -> Play:
    """Two models fill the node; `unwanted` is no longer wanted when `new` is added, which fits in place of either."""
    play = Play(100)
    play.want("unwanted", 50)
    play.want("idle", 50)
    play.go_on(2)
    play.now += timedelta(hours=2)
    play.want("new", 40)
    play.control()
    play.fill()
    del play.demands["unwanted"]
    return play


def test_pending_removals_are_awaited_before_anything_is_evicted() -> None:
    play = removal_during_a_shortage()
    play.go_on(8)
    assert (play.phase("new"), play.phase("idle"), play.evicted) == ("Ready", "Ready", Counter())


def test_an_unwanted_entry_in_use_is_not_evicted() -> None:
    play = removal_during_a_shortage()
    play.used_by[("unwanted", "r1")] = ("ns/pod",)
    play.go_on(8)
    assert (play.phase("new"), play.phase("unwanted"), play.evicted) == ("Ready", "Ready", {"idle": 1})


def test_live_reads_for_another_removal_do_not_cancel_a_batch() -> None:
    play = full()
    play.control()
    play.fill()
    drained = replace(play.view(), users={}, unwanted=frozenset())
    later = play.now + timedelta(seconds=PACE.drain_s)
    assert decide(drained, later, PACE) == [Requeue(1.0)]


def test_a_batch_is_evicted_together_or_not_at_all() -> None:
    play = Play(100)
    play.want("a", 50)
    play.want("b", 50)
    play.go_on(2)
    play.now += timedelta(hours=2)
    play.want("new", 90)
    play.go_on(2)
    assert {play.state("a"), play.state("b")} == {"Draining"}
    play.used_by[("b", "r1")] = ("ns/pod",)
    play.go_on(6)
    assert (play.phase("a"), play.phase("b"), play.evicted) == ("Ready", "Ready", Counter())


def test_last_use_is_written_when_the_use_ends_and_then_no_more() -> None:
    play = Play(100)
    play.want("m", 10)
    play.go_on(2)
    play.used_by[("m", "r1")] = ("ns/pod",)
    play.go_on(2)
    assert play.entries["m"].last_used == ""
    play.used_by.clear()
    ended = stamp(play.now)
    play.go_on(5)
    assert play.entries["m"].last_used == ended
    assert play.control() == []


def test_nothing_is_evicted_for_an_agent_that_reports_no_shortage() -> None:
    play = full()
    play.statuses = {k: msgspec.structs.replace(s, shortage=0, frees=0) for k, s in play.statuses.items()}
    assert not any(isinstance(a, WriteModelNode) for a in play.control())


def test_an_agent_restart_during_an_eviction_does_not_cause_a_second_one() -> None:
    play = full()
    play.control()
    play.fill()
    play.statuses[("old", "r1")] = msgspec.structs.replace(
        play.statuses[("old", "r1")], phase="Ready", observed="Present"
    )
    play.acknowledged.clear()  # and a new controller does not know how long it has been idle
    play.go_on()
    assert (play.phase("new"), play.evicted) == ("Ready", {"old": 1})


models = st.lists(
    st.tuples(st.integers(1, 150), st.integers(-1, 1), st.booleans(), st.integers(0, 3)), min_size=1, max_size=6
)


@settings(max_examples=150, deadline=None)
@given(models, st.booleans())
def test_models_do_not_evict_each_other_endlessly(
    found: Sequence[tuple[int, int, bool, int]],
    lags: bool,  # noqa: FBT001 - drawn
) -> None:
    """Without changes of objects, each model is evicted at most once, and then nothing more happens."""
    play = Play(120, lags=lags)
    for wave in range(4):
        for number, (size, priority, pinned, arrives) in enumerate(found):
            if arrives == wave:
                play.want(f"m{number}", size, priority=priority, pinned=pinned)
        play.go_on(6)
    play.go_on(60, step_s=1000)
    for _ in range(3):
        play.go_on(6)
        play.now += timedelta(hours=2)
    before = play.spec
    play.go_on(6)
    assert play.spec == before
    assert max(play.evicted.values(), default=0) <= 1


@settings(max_examples=100, deadline=None)
@given(models, st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), max_size=12))
def test_models_in_use_or_pinned_are_never_evicted(
    found: Sequence[tuple[int, int, bool, int]], events: Sequence[tuple[int, bool, bool]]
) -> None:
    """Pods come and go, whether the cache has them or not; `Play` checks every eviction."""
    play = Play(120)
    for number, (size, priority, pinned, _) in enumerate(found):
        play.want(f"m{number}", size, priority=priority, pinned=pinned)
    play.go_on(3)
    for number, comes, watched in events:
        key = (f"m{number}", "r1")
        play.watched = watched
        if comes and key in play.held and play.state(key[0]) == "Present":
            play.used_by[key] = ("ns/pod",)
        else:
            play.used_by.pop(key, None)
        play.go_on(3, step_s=1000)
        assert play.used_by.keys() <= play.held.keys()
