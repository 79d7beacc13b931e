"""`run` and `limited`: all contenders side by side, near servers."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from rig.binaries import Binaries
from rig.progress import Notify
from tests.bench.transfer import report
from tests.bench.transfer.contenders import catalog
from tests.bench.transfer.contenders.contender import Contender
from tests.bench.transfer.figures import rows
from tests.bench.transfer.limited import MemoryGroup
from tests.bench.transfer.loads import Load
from tests.bench.transfer.machine import describe
from tests.bench.transfer.report import Section
from tests.bench.transfer.rounds import Bench
from tests.bench.transfer.site import Site
from tests.bench.transfer.tools import Tools

_INTRODUCTION = """\
## Transfer, nearby servers

All contenders run in turn on one machine, together with the servers (nginx with sendfile behind the
rig's hub, versitygw for S3). Each run downloads the same files into an empty directory on disk. The
figures are medians of {rounds} rounds. CPU is the user and system time of the client, peak the resident
memory of its largest process. The floor is a C program that receives the bytes, hashes them with
SHA-256, writes them and ends with fsync. Contenders that use S3 are compared with the floor over
S3. Both rows of `larder fetch` verify and end with fsync. Peers verify what the column says,
without fsync.
"""

_LIMITED = """\
## Transfer, within an agent's memory limit

As above, medians of {rounds} rounds, but each contender runs in a control group of {mib} MiB, which is the
default for agents. Cached pages of the files count against this limit. A program that writes
through the page cache has to give pages back all the time, and leaves no more than that much of the
model in the cache. `larder fetch` bypasses the cache for models larger than half of the limit, as
agents do.
"""


def compare(
    work: Path,
    tools: Tools,
    binaries: Binaries,
    loads: Sequence[Load],
    contenders: Sequence[Contender],
    rounds: int,
    notify: Notify,
    *,
    memory_mib: int = 0,
) -> Section:
    """Run everything and return the section `transfer`, or `limited` if there is a memory limit."""
    name, introduction, prefix = ("limited", _LIMITED, "limited-") if memory_mib else ("transfer", _INTRODUCTION, "")
    parts = [introduction.format(rounds=rounds, mib=memory_mib), "\n".join(describe(tools, work))]
    pictures = {}
    limit = MemoryGroup(memory_mib) if memory_mib else nullcontext()
    with Site(work / "site", loads, tools.programs["nginx"], binaries) as site, limit as group:
        bench = Bench(site, tools, work, notify, enter=group.enter if group else ())
        for load in loads:
            results = bench.run(load, contenders, rounds)
            found = rows(load, results)
            shown = f"bench-{prefix}{load.name}.svg"
            pictures[shown] = report.picture(load, found, "near")
            parts += [f"### {load.spelled}", f"![wall seconds of each]({shown})", report.table(found)]
            parts.append(report.troubles(results, catalog.LEFT_OUT))
    return Section(name, "\n\n".join(part for part in parts if part), pictures)
