"""Rounds: every contender once, then all again, each into an empty directory on an idle disk.

Targets of many files are removed when all rounds are over: where a file system passes over what was removed a moment
ago (ext4 without a journal does), the next contender would pay for each file of the one before.
"""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rig.errors import SetupFailed
from rig.progress import Notify
from tests.bench.transfer.contenders.contender import Contender, Job, Way
from tests.bench.transfer.loads import Load
from tests.bench.transfer.measure import Command, Measured, RunFailed, run_measured
from tests.bench.transfer.site import Site
from tests.bench.transfer.tools import Tools

_OURS_BESIDE = (".larder", ".cache")  # files that tools keep beside the downloaded ones
_MANY = 100


@dataclass
class Result:
    """The result of one contender with one load; `trouble` is the reason for missing figures."""

    contender: Contender
    runs: list[Measured] = field(default_factory=list)
    failure: str = ""


@dataclass(frozen=True)
class Bench:
    """The environment of the bench: `work` must be on a real disk; `enter` begins each contender's command line."""

    site: Site
    tools: Tools
    work: Path
    notify: Notify
    enter: tuple[str, ...] = ()

    def run(self, load: Load, contenders: Sequence[Contender], rounds: int) -> list[Result]:
        """Return the results in the order of the contenders."""
        results = [Result(contender, failure=self._why_not(contender)) for contender in contenders]
        for number in range(rounds):
            for result in results:
                if not result.failure:
                    self._run_once(load, result, f"{load.name}, round {number + 1}")
        shutil.rmtree(self._spent, ignore_errors=True)
        return results

    @property
    def _spent(self) -> Path:
        return self.work / "spent"

    def _why_not(self, contender: Contender) -> str:
        if "measure" not in self.tools.programs:
            raise SetupFailed("the bench compiles its own C programs: install what Debian calls gcc and libc6-dev")
        if contender.way == Way.S3 and self.site.s3 is None:
            return "no S3 server in this bench"
        return self.tools.why_not(contender.needs)

    def _run_once(self, load: Load, result: Result, title: str) -> None:
        name = result.contender.name
        scratch = self.work / "run"
        target = scratch / "target"
        target.mkdir(parents=True)
        os.sync()
        try:
            made = result.contender.command(Job(self.site, load, target, scratch, self.tools))
            command = Command([*self.enter, *made.argv], made.env, made.list_file)
            measured = run_measured(self.tools.programs["measure"], command, scratch)
            check_files(load, target)
        except RunFailed as error:
            result.runs, result.failure = [], str(error)
            self.notify(f"{title}: {name}: {error}")
        else:
            result.runs.append(measured)
            self.notify(f"{title}: {name}: {measured.wall_s:.2f} s wall, {measured.cpu_s:.2f} s CPU")
        finally:
            self._put_away(scratch, load)
            os.sync()

    def _put_away(self, scratch: Path, load: Load) -> None:
        if load.count < _MANY:
            shutil.rmtree(scratch)
            return
        self._spent.mkdir(exist_ok=True)
        scratch.rename(self._spent / str(len(list(self._spent.iterdir()))))


def check_files(load: Load, target: Path) -> None:
    """Raise RunFailed unless the target has exactly the files of the load, complete."""
    found = {
        path.relative_to(target).as_posix(): path.stat().st_size
        for path in target.rglob("*")
        if path.is_file() and path.relative_to(target).parts[0] not in _OURS_BESIDE
    }
    wrong = sorted(set(found.items()) ^ set(dict.fromkeys(load.paths, load.size_bytes).items()))
    if wrong:
        raise RunFailed(f"it ended well, but {len(wrong)} files are missing, too many or cut: {wrong[0][0]}")
