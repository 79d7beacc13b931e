"""`run`: all contenders side by side, near servers."""

from collections.abc import Sequence
from pathlib import Path

from rig.binaries import Binaries
from rig.progress import Say
from tests.bench.transfer import report
from tests.bench.transfer.contenders import catalog
from tests.bench.transfer.contenders.contender import Contender
from tests.bench.transfer.figures import rows
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
    parts = [_INTRODUCTION.format(rounds=rounds)]
    parts.append("\n".join(describe(tools, work)))
    pictures = {}
    with Site(work / "site", loads, tools.programs["nginx"], binaries) as site:
        for load in loads:
            results = Bench(site, tools, work, say).run(load, contenders, rounds)
            found = rows(load, results)
            name = f"bench-{load.name}.svg"
            pictures[name] = report.picture(load, found, "near")
            parts += [f"### {load.spelled}", f"![wall seconds of each]({name})", report.table(found)]
            parts.append(report.troubles(results, catalog.LEFT_OUT))
    return Section("transfer", "\n\n".join(part for part in parts if part), pictures)
