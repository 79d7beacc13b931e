"""The commands of a documentation page, and the output that it shows.

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
    """A command of a page, and the pieces of output that the page shows, in order."""

    command: str
    answer: tuple[str, ...]


def steps(page: Path) -> Iterator[Step]:
    """Yield the commands that a reader types, and the output that the page shows."""
    for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            head, here, rest = part.partition("\nEOF\n")
            command, answer = (head + here, rest) if here else _typed(part)
            yield Step(command, tuple(filter(None, map(words_of, answer.split("...")))))


def _typed(part: str) -> tuple[str, str]:
    """Split a command, which a backslash continues on the next line, from its output."""
    lines = part.split("\n")
    last = next(number for number, line in enumerate(lines) if not line.endswith("\\"))
    return "\n".join(lines[: last + 1]), "\n".join(lines[last + 1 :])


def words_of(text: str) -> str:
    """Return a text in one line, with every digest replaced by the same word."""
    return _DIGEST.sub("DIGEST", " ".join(text.split()))


@dataclass(frozen=True)
class Shell:
    """The shell of a reader, with the programs of the page on its PATH."""

    environ: Mapping[str, str]
    folder: Path

    def follow(self, page: Path, within_s: float) -> int:
        """Repeat every command of a page until its output is as shown; return the number of commands."""
        typed = list(steps(page))
        for step in typed:
            seen = dict[str, int]()
            try:
                wait_until(lambda s=step, seen=seen: self._answers(s, seen), within_s, step.command)  # type: ignore[misc]
            except StartFailed:
                answers = "\n".join(f"exit code {code}: {text}" for text, code in seen.items())
                pytest.fail(f"{step.command}\nthe page: {step.answer}\nthe answers:\n{answers}", pytrace=False)
        return len(typed)

    def run(self, command: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of a page as its reader would."""
        argv = ["/bin/bash", "-c", command]
        return subprocess.run(  # noqa: S603 - the page's own commands
            argv, cwd=self.folder, env=self.environ, capture_output=True, text=True, check=False
        )

    def _answers(self, step: Step, seen: dict[str, int]) -> bool:
        """Return whether a command prints these pieces in order; a command that the page shows failing must fail.

        `seen` has the exit code of each different answer. What an attempt created before it failed is `unchanged` in
        the next one.
        """
        done = self.run(step.command)
        output = words_of(done.stdout + done.stderr)
        if any(seen.values()):
            output = output.replace(" unchanged", " created")
        seen[output] = done.returncode
        if not step.answer:
            return done.returncode == 0
        at = 0
        for piece in step.answer:
            at = output.find(piece, at)
            if at < 0:
                return False
            at += len(piece)
        return done.returncode != 0 or not step.answer[0].startswith("Error")
