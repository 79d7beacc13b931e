"""Installed scheduler plugins that raise, hang or return invalid answers, in a real controller."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.devices.entry_points import GROUP
from rig.larder.programs import ControllerProgram
from rig.larder.site import Site
from rig.ports import LOOPBACK
from shared.json_object import Json
from tests.builders.devices import pod_json
from tests.builders.distributions import install
from tests.integration.extender.conftest import AddNode
from tests.integration.extender.extender_client import ExtenderClient
from tests.readers.metrics import scrape

_TOY = "resource/group/toys/0/count"
# `good` offers toys on each node; `odd` does what a file says at that moment; `absent` cannot be made.
_PLUGINS = """
import os, pathlib, threading


class Good:
    name, using_group_scheduler = "good", True

    def add_node(self, node_name, node_info):
        node_info.allocatable["resource/group/toys/a/count"] = 2

    def pod_fits_device(self, node_info, pod_info, fill_allocate_from):
        return True, [], 0.0

    def remove_node(self, node_name):
        pass

    def pod_allocate(self, node_info, pod_info):
        pass

    take_pod_resources = return_pod_resources = pod_allocate


class Odd(Good):
    name = "odd"

    def add_node(self, node_name, node_info):
        pass

    def pod_fits_device(self, node_info, pod_info, fill_allocate_from):
        match pathlib.Path(os.environ["ODD_PLUGIN"]).read_text():
            case "raise":
                raise RuntimeError("the toys are broken")
            case "nonsense":
                return 7
            case "hang":
                threading.Event().wait()
        return True, [], 0.0


def absent():
    raise OSError("no libtoy")
"""
_POINTS = "absent = toys:absent\ngood = toys:Good\nodd = toys:Odd\n"


class PluginReplica:
    """A replica with the plugins, which the scheduler does not use."""

    def __init__(self, site: Site, node: str, state: Path) -> None:
        self._site, self._node, self._mode = site, node, state / "odd"
        install(state / "site", "toys", GROUP, _PLUGINS, _POINTS)
        environ = {"LARDER_SCHEDULER": "true", "PYTHONPATH": str(state / "site"), "ODD_PLUGIN": str(self._mode)}
        self.program = ControllerProgram(site.cluster.plane, state, "with-plugins", environ)
        self.set_odd("answer")
        self.program.start()
        self._extender = ExtenderClient(self.program)

    def set_odd(self, mode: str) -> None:
        """Set how the plugin `odd` behaves from now on: answer, raise, hang or return nonsense."""
        self._mode.write_text(mode)

    def filter(self) -> Json:
        """Return the answer for a new pod."""
        return self._extender.filter(pod_json(self._site.name("pod"), {_TOY: 1}), [self._node])

    def fits(self) -> bool:
        return bool(self.filter()["NodeNames"])

    def refuses_with(self, words: str) -> bool:
        """Return whether the pod is refused, temporarily or permanently, with a reason that contains these words."""
        answer = self.filter()
        return words in f"{answer['Error']} {answer['FailedAndUnresolvableNodes']}"

    def has_dropped_odd(self) -> bool:
        """Ask once more, and return whether the plugin `odd` was dropped."""
        self.filter()
        return self.failed("odd") == 1

    def failed(self, plugin: str) -> float:
        """Return the metric for failed plugins."""
        samples = scrape(f"http://{LOOPBACK}:{self.program.health_port}")
        return samples.get(f'larder_scheduler_plugin_failed{{plugin="{plugin}"}}', 0.0)


@pytest.fixture
def replica(site: Site, add_node: AddNode, tmp_path: Path) -> Iterator[PluginReplica]:
    found = PluginReplica(site, add_node({}), tmp_path)
    yield found
    found.program.process.stop()


def test_failing_plugins_are_named_and_the_others_continue(site: Site, replica: PluginReplica) -> None:
    site.until(replica.fits, "the node to have what the plugin `good` offers")
    assert replica.failed("absent") == 1
    assert "toys:absent is left out: OSError: no libtoy" in replica.program.log.read_text()

    replica.set_odd("raise")
    words = "scheduler plugin odd: pod_fits_device failed: RuntimeError: the toys are broken"
    site.until(lambda: replica.refuses_with(words), "the refusal")
    replica.set_odd("nonsense")
    site.until(lambda: replica.refuses_with("scheduler plugin odd: pod_fits_device failed: TypeError"), "the refusal")
    replica.set_odd("answer")
    site.until(replica.fits, "the plugin to be asked again")
    assert replica.failed("odd") == 0

    replica.set_odd("hang")
    site.until(replica.has_dropped_odd, "the plugin to be dropped")
    site.until(replica.fits, "the others to go on")
    assert replica.failed("good") == 0
    assert '"scheduler_plugin_dropped"' in replica.program.log.read_text()
