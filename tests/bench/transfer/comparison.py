"""`run` and `limited`: all contenders side by side, near servers."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from rig.binaries import Binaries
from rig.progress import Say
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
## Transfer, near servers

All in one run on one machine: the servers (nginx with sendfile behind the rig's hub, versitygw for S3), the same files,
an empty directory on the disk for each run, medians of {rounds} rounds of all contenders in turn. CPU is the client's
user and system time, peak the resident memory of its largest process. The floor is a C program that receives, hashes
SHA-256, writes and ends with fsync; what comes from S3 is held to the floor that comes from there too. Both of
`larder fetch` verify and end with fsync; peers do what the column says, and no fsync.
"""

_LIMITED = """\
## Transfer, within the memory of an agent

As above, medians of {rounds} rounds, each contender in a control group of {mib} MiB, as an agent has by default.
The pages that are cached of the files count against it: whoever writes through the page cache has to give pages back
all the time, and leaves no more than that of the model there. `larder fetch` writes models of more than half of it past
the cache, as agents do.
"""


def compare(
    work: Path,
    tools: Tools,
    binaries: Binaries,
    loads: Sequence[Load],
    contenders: Sequence[Contender],
    rounds: int,
    say: Say,
    *,
    memory_mib: int = 0,
) -> Section:
    """Run everything and return the section `transfer`; `limited` where there is a limit of memory."""
    name, introduction, prefix = ("limited", _LIMITED, "limited-") if memory_mib else ("transfer", _INTRODUCTION, "")
    parts = [introduction.format(rounds=rounds, mib=memory_mib), "\n".join(describe(tools, work))]
    pictures = {}
    limit = MemoryGroup(memory_mib) if memory_mib else nullcontext()
    with Site(work / "site", loads, tools.programs["nginx"], binaries) as site, limit as group:
        bench = Bench(site, tools, work, say, enter=group.enter if group else ())
        for load in loads:
            results = bench.run(load, contenders, rounds)
            found = rows(load, results)
            shown = f"bench-{prefix}{load.name}.svg"
            pictures[shown] = report.picture(load, found, "near")
            parts += [f"### {load.spelled}", f"![wall seconds of each]({shown})", report.table(found)]
            parts.append(report.troubles(results, catalog.LEFT_OUT))
    return Section(name, "\n\n".join(part for part in parts if part), pictures)
