"""Plugins that did not start are retried; those that failed return once they answer."""

from agent.devices.guarded_plugin import GuardedPlugin
from agent.devices.plugin_set import PluginSet
from shared.backoff import Backoff
from shared.devices.info import NodeInfo
from tests.builders.clock import Clock
from tests.builders.device_plugins import CARD, StubDevice


def always(problems: list[str], method: str) -> None:
    if method in problems:
        raise RuntimeError(f"{method} does not work")


def test_a_plugin_that_did_not_start_is_retried_later() -> None:
    clock, problems, starts = Clock(), ["start"], [0]

    def start() -> None:
        starts[0] += 1
        always(problems, "start")

    flaky = GuardedPlugin("flaky", lambda: StubDevice("flaky", on_start=start))
    works = GuardedPlugin("works", lambda: StubDevice("works"))
    plugins = PluginSet([flaky, works], clock, Backoff(60, 900, lambda _low, high: high))
    for _ in range(3):
        answers = plugins.ask("n1")
        assert answers.offers.keys() == {"works"}
        assert "start: RuntimeError: start does not work" in answers.failures["flaky"]
    assert starts == [1]
    clock.now = 60.0
    plugins.ask("n1")
    clock.now = 179.0
    plugins.ask("n1")
    assert starts == [2], "the second wait is twice the first"
    problems.clear()
    clock.now = 180.0
    answers = plugins.ask("n1")
    assert answers.offers.keys() == {"works", "flaky"}
    assert answers.failures == {}


def test_a_plugin_that_fails_to_answer_is_left_out_until_it_answers() -> None:
    problems = ["update"]

    def fill(info: NodeInfo) -> None:
        always(problems, "update")
        info.allocatable[CARD] = 1

    plugins = PluginSet([GuardedPlugin("toy", lambda: StubDevice("toy", fill=fill))], Clock())
    assert "update does not work" in plugins.ask("n1").failures["toy"]
    problems.clear()
    answers = plugins.ask("n1")
    assert (answers.offers["toy"].allocatable, answers.failures) == ({CARD: 1}, {})
    problems.append("update")
    assert plugins.ask("n1").offers == {}


def test_a_plugin_that_starts_late_with_a_taken_name_is_left_out() -> None:
    clock, problems = Clock(), ["start"]
    late = GuardedPlugin("late", lambda: StubDevice("toy", on_start=lambda: always(problems, "start")))
    plugins = PluginSet([late, GuardedPlugin("toy", lambda: StubDevice("toy"))], clock)
    assert plugins.ask("n1").offers.keys() == {"toy"}
    problems.clear()
    clock.now = 1000.0
    assert "another plugin is named 'toy' too" in plugins.ask("n1").failures["late"]
