"""The commands of docs/device-scheduling.md, in order, print the output shown there."""

import os
from pathlib import Path

from rig.binaries import Binaries
from rig.larder.site import Site
from tests.integration.extender.conftest import AddNode
from tests.readers.console import Shell

PAGE = Path(__file__).parents[3] / "docs" / "device-scheduling.md"
_ANSWER_S = 120.0


def test_every_command_on_the_page_prints_the_output_shown(site: Site, add_node: AddNode, binaries: Binaries) -> None:
    add_node({})
    path = f"{binaries.kubectl.parent}:{os.environ['PATH']}"
    shell = Shell({**os.environ, "KUBECONFIG": str(site.cluster.plane.kubeconfig), "PATH": path}, Path.cwd())
    assert shell.follow(PAGE, _ANSWER_S) > 8
