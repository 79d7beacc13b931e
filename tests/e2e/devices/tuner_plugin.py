"""A device plugin in a distribution of its own, and the image of an agent with it, built as docs/devices.md says."""

import re
from pathlib import Path

from rig.node import images
from shared.devices.info import GROUP_PREFIX

TAG = "with-tuners"
FOLDER = "/run/tuners"  # on the node: a directory for each tuner
PLUG_IN = ["sh", "-c", f"for tuner in a b; do mkdir -p {FOLDER}/$tuner; echo $tuner >{FOLDER}/$tuner/firmware; done"]
_VOLUME = {"name": "tuners", "hostPath": {"path": FOLDER, "type": "DirectoryOrCreate"}}
# What the plugin needs in the pods of the agent and of the driver.
EXTRAS = {
    "extraEnv": [{"name": "TUNERS", "value": FOLDER}],
    "extraVolumes": [_VOLUME],
    "extraVolumeMounts": [{"name": "tuners", "mountPath": FOLDER, "readOnly": True}],
}
_PAGE = Path(__file__).parents[3] / "docs" / "devices.md"
_PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "larder-tuners"
version = "0.1.0"

[project.entry-points."larder.devices"]
tuners = "larder_tuners:Tuners"

[tool.hatch.build.targets.wheel]
only-include = ["larder_tuners.py"]
"""
_PLUGIN = """
import os
from pathlib import Path

from agent.devices.plugin import Mount

PREFIX = "resource/group/tuner/"


class Tuners:
    name = "tuners"

    def new(self):
        self.folder = Path(os.environ["TUNERS"])

    def start(self):
        self.names()

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())

    def update_node_info(self, node_info):
        node_info.allocatable = {f"{PREFIX}{name}/slot": 1 for name in self.names()}

    def allocate(self, pod_info, container_info):
        given = [place.split("/")[3] for place in container_info.allocate_from.values() if place.startswith(PREFIX)]
        mounts = [Mount(f"/tuners/{name}", str(self.folder / name)) for name in given]
        return mounts, [], {"TUNERS_GIVEN": ",".join(given)} if given else {}
"""


def slot(place: str) -> str:
    """Return the resource of a tuner on a node, or in a request."""
    return f"{GROUP_PREFIX}tuner/{place}/slot"


def build_agent(cache: Path, folder: Path) -> Path:
    """Return the image of the agent with the plugin, by the recipe of the page."""
    (folder / "pyproject.toml").write_text(_PROJECT)
    (folder / "larder_tuners.py").write_text(_PLUGIN)
    (recipe,) = re.findall(r"```\n(FROM larder-agent\n.*?)```", _PAGE.read_text(), re.DOTALL)
    for theirs, ours in (("FROM larder-agent", f"FROM {images.AGENT}"), ("docs/examples/device-plugins", ".")):
        assert theirs in recipe
        recipe = recipe.replace(theirs, ours)
    name, _, _ = images.AGENT.rpartition(":")
    return images.build_derived(cache, f"{name}:{TAG}", recipe, folder, print)
