"""docs/getting-started.md does what it says: its commands on the demo, in order, with the answers that it shows."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.console import Console

from rig.binaries import Binaries
from rig.demo import story
from rig.demo.holder import READY
from rig.errors import StartFailed
from rig.processes import Process, Program, wait_until

PAGE = Path(__file__).parents[3] / "docs" / "getting-started.md"
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DIGEST = re.compile(r"\b[0-9a-f]{12,64}\b")
_READY_S, _ANSWER_S, _GRACE_S = 90.0, 60.0, 20.0


class Step(NamedTuple):
    """A command of the page, and what it shows of the answer: pieces, in their order."""

    command: str
    answer: tuple[str, ...]


def steps() -> Iterator[Step]:
    """Yield what a reader types, and what the page says comes back."""
    for block in _BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            head, here, rest = part.partition("\nEOF\n")
            command, answer = (head + here, rest) if here else part.split("\n", 1)
            yield Step(command, tuple(filter(None, map(words_of, answer.split("...")))))


def words_of(text: str) -> str:
    """Return a text in one line, with the same word for every digest."""
    return _DIGEST.sub("DIGEST", " ".join(text.split()))


@pytest.fixture(scope="module")
def shell(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment that the demo tells its reader to set, once it has told its story."""
    state = tmp_path_factory.mktemp("larder-demo")
    holder = Process(Program("demo", [sys.executable, "-m", "rig.demo.holder", str(state)]), state / "demo.log")
    try:
        holder.wait_ready((state / READY).exists, _READY_S)
        kubeconfig = state / "control-plane" / "admin.kubeconfig"
        with (state / "story.txt").open("w") as reported:
            story.tell(Console(file=reported), kubeconfig)
        path = f"{Path(sys.executable).parent}:{binaries.kubectl.parent}:{os.environ['PATH']}"
        yield {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": path, "STATE": str(state)}
    finally:
        holder.stop(_GRACE_S)


def test_every_command_of_the_page_answers_as_shown(shell: dict[str, str]) -> None:
    reported = list(steps())
    assert len(reported) > 8
    for step in reported:
        said = list[str]()
        try:
            wait_until(lambda s=step, seen=said: answers(s, shell, seen), _ANSWER_S, step.command)  # type: ignore[misc]
        except StartFailed:
            pytest.fail(f"{step.command}\nthe page: {step.answer}\nthe last answer: {said[-1]}", pytrace=False)


def answers(step: Step, shell: dict[str, str], said: list[str]) -> bool:
    """Tell whether a command answers with these pieces in their order; a refusal must be one."""
    done = run(step.command, shell)
    said.append(words_of(done.stdout + done.stderr))
    if not step.answer:
        return done.returncode == 0
    at = 0
    for piece in step.answer:
        at = said[-1].find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return done.returncode != 0 or not step.answer[0].startswith("Error")


def run(command: str, shell: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run a command of the page as its reader would, with this demo's directory for theirs."""
    argv = ["/bin/bash", "-c", command.replace("/tmp/larder-demo-*", shell["STATE"])]  # noqa: S108 - the page's words
    return subprocess.run(argv, env=shell, capture_output=True, text=True, check=False)  # noqa: S603 - the page's own commands
