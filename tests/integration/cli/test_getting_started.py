"""The commands of docs/getting-started.md, in order on the demo, print the output shown there."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from rig.binaries import Binaries
from rig.demo import story
from rig.demo.holder import READY
from rig.processes import Process, Program
from tests.readers.console import Shell

PAGE = Path(__file__).parents[3] / "docs" / "getting-started.md"
_READY_S, _ANSWER_S, _GRACE_S = 90.0, 60.0, 20.0


class DemoShell(Shell):
    """A shell beside the demo."""

    def run(self, command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command, with this demo's directory in place of the one on the page."""
        return super().run(command.replace("/tmp/larder-demo-*", self.environ["STATE"]))  # noqa: S108 - the page's words


@pytest.fixture(scope="module")
def shell(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """The environment that the demo asks its user to set once it is ready."""
    state = tmp_path_factory.mktemp("larder-demo")
    holder = Process(Program("demo", [sys.executable, "-m", "rig.demo.holder", str(state)]), state / "demo.log")
    try:
        holder.wait_ready((state / READY).exists, _READY_S)
        kubeconfig = state / "control-plane" / "admin.kubeconfig"
        with (state / "story.txt").open("w") as reported:
            story.show(Console(file=reported), kubeconfig)
        path = f"{Path(sys.executable).parent}:{binaries.kubectl.parent}:{os.environ['PATH']}"
        environ = {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": path, "STATE": str(state)}
        yield DemoShell(environ, Path.cwd())
    finally:
        holder.stop(_GRACE_S)


def test_every_command_on_the_page_prints_the_output_shown(shell: Shell) -> None:
    assert shell.follow(PAGE, _ANSWER_S) > 8
