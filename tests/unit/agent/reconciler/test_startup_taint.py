from dataclasses import replace

import pytest

from agent.reconciler.actions import ChangeLabels, RemoveStartupTaint
from agent.reconciler.decide import decide, next_due_s
from agent.reconciler.observation import (
    Downloading,
    Failure,
    Key,
    Observation,
    StartupTaintRule,
    StartupTaintState,
    Work,
)
from agent.reconciler.startup_taint import is_startup_taint, startup_taint_removal
from shared.api.model_node import Entry
from tests.builders.observations import DAMAGED, DIGEST, SOUND, both, entry, failure, model_node, observation

KEY = ("llama", "r1")
TAINT = StartupTaintState(present=True)
NOW_S = 1000.0
GO = RemoveStartupTaint()


def tainted(*entries: Entry, state: StartupTaintState = TAINT, **fields: object) -> Observation:
    """An observation of a Node with the startup taint."""
    return observation(*entries, startup_taint=state, now_s=NOW_S, **fields)  # type: ignore[arg-type]


def failing(of: Entry, for_s: float, reason: str = "InsufficientStorage") -> Failure:
    """A failure that began `for_s` seconds ago."""
    return replace(failure(of, NOW_S + 60, reason), since_s=NOW_S - for_s)


@pytest.mark.parametrize(
    ("key", "effect", "ours"),
    [
        ("larder.dev/agent-not-ready", "NoSchedule", True),
        ("startup-taint.cluster-autoscaler.kubernetes.io/larder-agent-not-ready", "NoSchedule", True),
        ("larder.dev/agent-not-ready", "NoExecute", False),
        ("larder.dev/agent-not-ready-yet", "NoSchedule", False),
        ("node.kubernetes.io/not-ready", "NoSchedule", False),
    ],
)
def test_only_the_two_known_no_schedule_keys_are_startup_taints(key: str, effect: str, ours: bool) -> None:  # noqa: FBT001 - a case of the table
    assert is_startup_taint({"key": key, "effect": effect, "value": "any"}) is ours


def test_the_taint_is_removed_once_every_model_has_its_labels() -> None:
    assert startup_taint_removal(tainted(entry(), held={KEY: SOUND}, labels=both())) == GO
    assert startup_taint_removal(tainted()) == GO


def test_without_the_taint_nothing_is_removed() -> None:
    gone = StartupTaintState(present=False)
    assert startup_taint_removal(tainted(entry(), state=gone, held={KEY: SOUND}, labels=both())) is None


def test_the_labels_are_set_before_the_startup_taint_is_removed() -> None:
    actions = decide(tainted(entry(), held={KEY: SOUND}))
    assert [type(a) for a in actions] == [ChangeLabels]


@pytest.mark.parametrize(
    "waiting",
    [
        tainted(entry()),
        tainted(entry(granted=False)),
        tainted(entry(), held={KEY: DAMAGED}, labels=both()),
        tainted(entry(), works={KEY: Downloading(DIGEST, has_received=True)}),
        tainted(entry(), entry("qwen"), held={KEY: SOUND}, labels=both()),
    ],
    ids=["missing", "not granted", "damaged", "downloading", "one of two"],
)
def test_the_taint_stays_while_a_model_is_being_fetched_or_repaired(waiting: Observation) -> None:
    assert startup_taint_removal(waiting) is None


@pytest.mark.parametrize(
    "other", [entry(state="Draining"), entry(state="Absent"), entry(uri="pvc://team/claim"), entry(manifest="")]
)
def test_the_taint_does_not_wait_for_entries_that_the_agent_does_not_fetch(other: Entry) -> None:
    assert startup_taint_removal(tainted(other)) == GO


def test_the_taint_does_not_wait_for_models_below_the_minimum_priority() -> None:
    state = replace(TAINT, rule=StartupTaintRule(min_priority=10))
    assert startup_taint_removal(tainted(entry(priority=9), state=state)) == GO
    assert startup_taint_removal(tainted(entry(priority=10), state=state)) is None


@pytest.mark.parametrize("works", [{}, {("team_slow", "r1"): Downloading(DIGEST, has_received=True)}])
def test_the_taint_waits_a_limited_time_for_namespaced_models(works: dict[Key, Work]) -> None:
    slow, rule = entry("team_slow", priority=1000), StartupTaintRule(namespaced_s=300)
    waits = tainted(slow, works=works, state=replace(TAINT, since_s=NOW_S - 299, rule=rule))
    assert startup_taint_removal(waits) is None
    assert next_due_s(waits) == NOW_S + 1
    late = replace(TAINT, since_s=NOW_S - 300, rule=rule)
    assert startup_taint_removal(tainted(slow, works=works, state=late)) == RemoveStartupTaint(
        ("team_slow (not complete yet)",)
    )
    shared = tainted(slow, entry(), works=works, state=late)
    assert startup_taint_removal(shared) is None, "the taint still waits for a cluster-scoped model"
    assert startup_taint_removal(tainted(slow, state=replace(TAINT, rule=replace(rule, namespaced_s=0)))) is not None


def test_the_taint_is_removed_if_a_model_has_failed_for_ten_minutes() -> None:
    wanted = entry()
    assert startup_taint_removal(tainted(wanted, failures={KEY: failing(wanted, 599)})) is None
    found = startup_taint_removal(tainted(wanted, failures={KEY: failing(wanted, 600)}))
    assert found == RemoveStartupTaint(("llama (InsufficientStorage)",))


def test_a_failing_model_does_not_end_the_wait_for_the_others() -> None:
    bad, good = entry(), entry("qwen")
    assert startup_taint_removal(tainted(bad, good, failures={KEY: failing(bad, 6000)})) is None


def test_the_taint_waits_for_a_download_that_receives_bytes_however_long_it_failed_before() -> None:
    wanted, works = entry(), {KEY: Downloading(DIGEST, has_received=True)}
    assert startup_taint_removal(tainted(wanted, works=works, failures={KEY: failing(wanted, 6000)})) is None
    stuck = {KEY: Downloading(DIGEST)}
    assert startup_taint_removal(tainted(wanted, works=stuck, failures={KEY: failing(wanted, 6000)})) is not None


@pytest.mark.parametrize("foreign", [None, model_node([entry()], uid="other")])
def test_the_taint_is_removed_after_ten_minutes_without_a_model_node(foreign: object) -> None:
    early = replace(TAINT, since_s=NOW_S - 599)
    assert startup_taint_removal(tainted(state=early, model_node=foreign)) is None
    late = replace(TAINT, since_s=NOW_S - 600)
    found = startup_taint_removal(tainted(state=late, model_node=foreign))
    assert found is not None
    assert found.missing == ("the controller has not listed the models for this node yet",)


def test_the_loop_wakes_when_a_failure_has_lasted_long_enough() -> None:
    wanted = entry()
    found = tainted(wanted, failures={KEY: replace(failing(wanted, 590), due_s=float("inf"))})
    assert next_due_s(found) == NOW_S + 10


def test_a_refused_patch_is_not_repeated_at_once() -> None:
    state = replace(TAINT, patch_due_s=NOW_S + 5)
    assert startup_taint_removal(tainted(state=state)) is None
    assert next_due_s(tainted(state=state)) == NOW_S + 5
