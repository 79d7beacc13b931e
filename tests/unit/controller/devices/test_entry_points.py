"""A plugin that fails to load is left out with a reason; the others are loaded."""

from importlib.metadata import EntryPoint

import pytest

from controller.devices.entry_points import GROUP, load_schedulers
from controller.devices.group_scheduler import GroupScheduler

_WORKING = "controller.devices.group_scheduler:GroupScheduler"


def test_a_plugin_that_fails_is_left_out() -> None:
    values = {
        "absent": "no_such_distribution:Scheduler",
        "missing": "controller.devices.group_scheduler:NoSuchName",
        "needs": "controller.devices.group_scheduler:DoesNotFit",
        "number": "builtins:int",
        "second": _WORKING,
        "works": _WORKING,
    }
    loaded = load_schedulers(EntryPoint(name, value, GROUP) for name, value in values.items())
    assert [type(plugin) for plugin in loaded.plugins] == [GroupScheduler]
    assert loaded.failures.keys() == values.keys() - {"second"}
    assert "ModuleNotFoundError" in loaded.failures["absent"]
    assert "AttributeError" in loaded.failures["missing"]
    assert "TypeError" in loaded.failures["needs"]
    assert "a int is not a scheduler plugin: it has no add_node, remove_node" in loaded.failures["number"]
    assert "another plugin is named 'group' too" in loaded.failures["works"]


class Panic(BaseException):
    """Not an Exception, like the PanicException of pyo3."""


def exits() -> None:
    raise SystemExit(1)


def panics() -> None:
    raise Panic("no idea")


def interrupted() -> None:
    raise KeyboardInterrupt


def test_a_plugin_that_would_end_the_program_is_left_out_as_well() -> None:
    values = {"exits": f"{__name__}:exits", "panics": f"{__name__}:panics", "works": _WORKING}
    loaded = load_schedulers(EntryPoint(name, value, GROUP) for name, value in values.items())
    assert [type(plugin) for plugin in loaded.plugins] == [GroupScheduler]
    assert "SystemExit: 1" in loaded.failures["exits"]
    assert "Panic: no idea" in loaded.failures["panics"]
    with pytest.raises(KeyboardInterrupt):
        load_schedulers([EntryPoint("interrupted", f"{__name__}:interrupted", GROUP)])


def test_an_installed_plugin_is_loaded() -> None:
    assert load_schedulers() == load_schedulers([])
