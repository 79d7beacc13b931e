"""`run`: all contenders side by side, near servers."""

from collections.abc import Sequence
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
) -> Section:
    """Run everything and return the section `transfer`."""
    with Site(work / "site", loads, tools.programs["nginx"], binaries) as site:
        parts, pictures = _side_by_side(Bench(site, tools, work, say), loads, contenders, rounds)
    introduction = [_INTRODUCTION.format(rounds=rounds), "\n".join(describe(tools, work))]
    return Section("transfer", "\n\n".join([*introduction, *parts]), pictures)


def compare_limited(
    work: Path,
    tools: Tools,
    binaries: Binaries,
    loads: Sequence[Load],
    contenders: Sequence[Contender],
    rounds: int,
    say: Say,
    *,
    memory_mib: int,
) -> Section:
    """Run everything within a limit of memory and return the section `limited`."""
    with Site(work / "site", loads, tools.programs["nginx"], binaries) as site, MemoryGroup(memory_mib) as group:
        bench = Bench(site, tools, work, say, enter=group.enter)
        parts, pictures = _side_by_side(bench, loads, contenders, rounds, "limited-")
    introduction = [_LIMITED.format(rounds=rounds, mib=memory_mib), "\n".join(describe(tools, work))]
    return Section("limited", "\n\n".join([*introduction, *parts]), pictures)


def _side_by_side(
    bench: Bench, loads: Sequence[Load], contenders: Sequence[Contender], rounds: int, prefix: str = ""
) -> tuple[list[str], dict[str, str]]:
    """Return the paragraphs of all loads, and the pictures that they show."""
    parts, pictures = [], {}
    for load in loads:
        results = bench.run(load, contenders, rounds)
        found = rows(load, results)
        name = f"bench-{prefix}{load.name}.svg"
        pictures[name] = report.picture(load, found, "near")
        parts += [f"### {load.spelled}", f"![wall seconds of each]({name})", report.table(found)]
        parts += [told] if (told := report.troubles(results, catalog.LEFT_OUT)) else []
    return parts, pictures
