"""A plugin that fails to load or start is left out with a reason; the others start."""

from importlib.metadata import EntryPoint

from agent.devices.guarded_plugin import GuardedPlugin
from agent.devices.loading import installed_plugins, start_plugins
from agent.devices.plugin import GROUP
from tests.builders.device_plugins import Hanging, StubDevice

PLUGINS = "tests.builders.device_plugins"


def test_a_plugin_that_fails_is_left_out() -> None:
    values = {
        "absent": "no_such_distribution:Device",
        "bad-name": f"{PLUGINS}:make_badly_named",
        "exits": f"{PLUGINS}:make_that_exits",
        "fails-new": f"{PLUGINS}:make_that_fails_new",
        "fails-to-start": f"{PLUGINS}:make_that_fails_to_start",
        "missing": f"{PLUGINS}:NoSuchName",
        "nameless": f"{PLUGINS}:make_nameless",
        "number": "builtins:int",
        "other": f"{PLUGINS}:make_working",
        "works": f"{PLUGINS}:make_working_too",
    }
    loaded = start_plugins(installed_plugins(EntryPoint(name, value, GROUP) for name, value in values.items()))
    assert [plugin.name for plugin in loaded.plugins] == ["working"]
    assert loaded.failures.keys() == values.keys() - {"other"}
    words = {
        "absent": "ModuleNotFoundError",
        "bad-name": "must have 1 to 63 characters",
        "exits": "start: SystemExit: 3",
        "fails-new": "load: OSError: no memory",
        "fails-to-start": "start: RuntimeError: no card found",
        "missing": "AttributeError",
        "nameless": "the attribute name is not a str",
        "number": "a int is not a device plugin: it has no new, start, update_node_info, allocate",
        "works": "another plugin is named 'working' too",
    }
    for label, expected in words.items():
        assert expected in loaded.failures[label]


def test_a_plugin_with_a_taken_name_is_left_out() -> None:
    loaded = start_plugins([GuardedPlugin("label", lambda: StubDevice("models"))], taken=["models"])
    assert loaded.plugins == ()
    assert "another plugin is named 'models' too" in loaded.failures["label"]


def test_a_plugin_that_hangs_in_start_is_left_out_and_the_others_continue() -> None:
    hanging = Hanging()
    plugins = [
        GuardedPlugin("hangs", lambda: StubDevice("hangs", on_start=hanging), 2),
        GuardedPlugin("works", lambda: StubDevice("works")),
    ]
    loaded = start_plugins(plugins)
    hanging.let_go.set()
    assert [plugin.name for plugin in loaded.plugins] == ["works"]
    assert "start: did not return within 2 s" in loaded.failures["hangs"]


def test_an_installed_plugin_is_found() -> None:
    assert installed_plugins() == []
