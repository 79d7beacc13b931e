"""The commands of a documentation page, and what it shows of their answers.

    ```console
    $ kubectl get clusterbasemodel tiny
    NAME   STATE   ...   REASON
    tiny   Ready   ...   Stocked
    ```

`...` stands for whatever else comes back, and digests for any others. Spaces and line breaks do not count.
"""

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from rig.errors import StartFailed
from rig.processes import wait_until

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DIGEST = re.compile(r"\b[0-9a-f]{12,64}\b")


class Step(NamedTuple):
    """A command of a page, and what it shows of the answer: pieces, in their order."""

    command: str
    answer: tuple[str, ...]


def steps(page: Path) -> Iterator[Step]:
    """Yield what a reader types, and what the page says comes back."""
    for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            head, here, rest = part.partition("\nEOF\n")
            command, answer = (head + here, rest) if here else _typed(part)
            yield Step(command, tuple(filter(None, map(words_of, answer.split("...")))))


def _typed(part: str) -> tuple[str, str]:
    """Split a command, which a backslash continues on the next line, from its answer."""
    lines = part.split("\n")
    last = next(number for number, line in enumerate(lines) if not line.endswith("\\"))
    return "\n".join(lines[: last + 1]), "\n".join(lines[last + 1 :])


def words_of(text: str) -> str:
    """Return a text in one line, with the same word for every digest."""
    return _DIGEST.sub("DIGEST", " ".join(text.split()))


@dataclass(frozen=True)
class Shell:
    """A reader's shell, in whose environment the programs of the page are found."""

    environ: Mapping[str, str]
    folder: Path

    def follow(self, page: Path, within_s: float) -> int:
        """Type every command of a page until it answers as shown; return how many there were."""
        typed = list(steps(page))
        for step in typed:
            output = list[str]()
            try:
                wait_until(lambda s=step, seen=output: self._answers(s, seen), within_s, step.command)  # type: ignore[misc]
            except StartFailed:
                shown = f"{step.command}\nthe page: {step.answer}\nthe last answer: {output[-1]}"
                pytest.fail(shown, pytrace=False)
        return len(typed)

    def run(self, command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of a page as its reader would."""
        argv = ["/bin/bash", "-c", command]
        return subprocess.run(  # noqa: S603 - the page's own commands
            argv, cwd=self.folder, env=self.environ, capture_output=True, text=True, check=False
        )

    def _answers(self, step: Step, output: list[str]) -> bool:
        """Tell whether a command answers with these pieces in their order; a refusal must be one."""
        done = self.run(step.command)
        output.append(words_of(done.stdout + done.stderr))
        if not step.answer:
            return done.returncode == 0
        at = 0
        for piece in step.answer:
            at = output[-1].find(piece, at)
            if at < 0:
                return False
            at += len(piece)
        return done.returncode != 0 or not step.answer[0].startswith("Error")
