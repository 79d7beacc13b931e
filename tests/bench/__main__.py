"""`python -m tests.bench [run|limited|link|memory|cap|restart|pods|claims|setup] [OPTIONS]`; `make bench` calls it."""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rig import binaries
from rig.errors import SetupFailed
from shared.errors import LarderError
from tests.bench.claims.training_jobs import measure_claims
from tests.bench.pods.measure import measure_pods
from tests.bench.transfer import report, tools
from tests.bench.transfer.cap import measure_cap
from tests.bench.transfer.comparison import compare
from tests.bench.transfer.contenders import catalog
from tests.bench.transfer.contenders.contender import Contender
from tests.bench.transfer.link import compare_far
from tests.bench.transfer.loads import Load, large, small
from tests.bench.transfer.machine import ensure_disk
from tests.bench.transfer.measure import RunFailed
from tests.bench.transfer.memory import measure_memory
from tests.bench.transfer.report import Section
from tests.bench.transfer.restart import measure_restart

_SIZES_MIB = (256, 1024)
_DOCS = Path("docs/benchmarks.md")


def main(arguments: Sequence[str]) -> int:
    """Run one measurement; return 0, or 1 after printing the reason for the failure."""
    options = _parser().parse_args(arguments or ["run"])
    try:
        if options.command == "setup":
            tools.setup(os.environ, _say, packages=options.packages)
            return 0
        with _workspace(options.work) as work:
            section = _MEASUREMENTS[options.command](options, work)
    except (LarderError, RunFailed) as error:
        sys.stderr.write(f"bench: {error}\n")
        return 1
    page = _DOCS if options.docs else options.out / "report.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    report.write([section], page)
    sys.stdout.write(f"{section.text}\n\nwritten to {page}\n")
    return 0


def _run(options: argparse.Namespace, work: Path) -> Section:
    return compare(
        work, _found(), binaries.find(os.environ), _loads(options), _contenders(options.only), options.rounds, _say,
        memory_mib=options.memory_mib,
    )  # fmt: skip


def _link(options: argparse.Namespace, work: Path) -> Section:
    if os.geteuid() != 0:
        raise SetupFailed("network namespaces need root; run this as root")
    return compare_far(
        work, _found(), _loads(options), options.rounds, _say,
        round_trip_ms=options.round_trip_ms, mbit=options.mbit, connection_mib=options.connection_mib,
    )  # fmt: skip


def _memory(options: argparse.Namespace, work: Path) -> Section:
    return measure_memory(work, _found(), options.large, _say)


def _cap(options: argparse.Namespace, work: Path) -> Section:
    return measure_cap(work, _found(), options.rate_mib, options.seconds, _say)


def _restart(options: argparse.Namespace, work: Path) -> Section:
    return measure_restart(work, binaries.find(os.environ), options.models, options.rounds, _say)


def _pods(options: argparse.Namespace, work: Path) -> Section:
    return measure_pods(work, sorted(options.size or _SIZES_MIB), options.rounds, _say)


def _claims(options: argparse.Namespace, work: Path) -> Section:
    return measure_claims(work, binaries.find(os.environ), options.claims, options.qps, options.jobs, _say)


_MEASUREMENTS: dict[str, Callable[[argparse.Namespace, Path], Section]] = {
    "run": _run,
    "limited": _run,
    "link": _link,
    "memory": _memory,
    "cap": _cap,
    "restart": _restart,
    "pods": _pods,
    "claims": _claims,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Larder beside its peers.")
    commands = parser.add_subparsers(dest="command", required=True)
    setup = commands.add_parser("setup", help="bring the peers and servers that are missing")
    setup.add_argument("--packages", action="store_true", help="Debian's packages too, by apt-get (root)")
    measured = argparse.ArgumentParser(add_help=False)
    measured.add_argument("--docs", action="store_true", help="write into docs/ instead of --out")
    cache = tools.bench_cache(os.environ)
    measured.add_argument("--out", type=Path, default=cache / "report", help="where the report goes")
    measured.add_argument("--work", type=Path, default=cache, help="a directory on a disk, for files and targets")
    measured.add_argument("--rounds", type=int, default=3, help="how often each is measured (3)")
    run, limited, link, memory, cap, restart, pods, claims = (
        commands.add_parser(name, parents=[measured], help=words)
        for name, words in (
            ("run", "all contenders, near servers"),
            ("limited", "as run, within the memory of an agent (root)"),
            ("link", "some contenders, over a far link (root)"),
            ("memory", "resident memory over time"),
            ("cap", "how well the rate limit holds"),
            ("restart", "restart of an agent with many models"),
            ("pods", "from a pod's creation to its model, on a real node (root)"),
            ("claims", "the claims of a large TrainingJob, with the controller killed twice"),
        )
    )
    for command in (run, limited, link):
        command.add_argument("--large", type=large, default=large("8x512M"), help="8x512M")
        command.add_argument("--small", type=small, default=small("2000x64K"), help="2000x64K")
        command.add_argument("--load", choices=("large", "small"), help="only this one")
    for command in (run, limited):
        command.add_argument("--only", metavar="WORD", nargs="*", help="contenders whose name has one of these words")
    run.set_defaults(memory_mib=0)
    limited.add_argument("--memory-mib", type=int, default=1024, help="the limit, MiB (1024)")
    link.add_argument("--round-trip-ms", type=float, default=30.0)
    link.add_argument("--mbit", type=int, default=1000)
    link.add_argument("--connection-mib", type=int, default=0, help="MiB/s of one connection at most (0: no limit)")
    memory.add_argument("--large", type=large, default=large("8x512M"), help="8x512M")
    cap.add_argument("--rate-mib", type=int, default=50, help="the limit, MiB/s (50)")
    cap.add_argument("--seconds", type=int, default=30, help="how long each fetch takes (30)")
    restart.add_argument("--models", type=int, default=200)
    pods.set_defaults(rounds=100)  # for a p99
    pods.add_argument("--size", type=int, metavar="MIB", action="append", help="size of a model (256 and 1024)")
    claims.add_argument("--claims", type=int, default=2000, help="claims that are requested at once (2000)")
    claims.add_argument("--qps", type=float, default=20.0, help="claims per second (20)")
    claims.add_argument("--jobs", type=int, default=1, help="TrainingJobs, each in its namespace (1)")
    return parser


def _found() -> tools.Tools:
    found = tools.find(os.environ)
    if missing := found.why_not(("nginx", "measure")):
        raise SetupFailed(f"the bench cannot do without: {missing}; with --packages also Debian's")
    return found


def _loads(options: argparse.Namespace) -> list[Load]:
    return [load for load in (options.large, options.small) if options.load in (None, load.name)]


def _contenders(words: Sequence[str] | None) -> list[Contender]:
    return [one for one in catalog.ALL if not words or any(word in one.name for word in words)]


@contextmanager
def _workspace(place: Path) -> Iterator[Path]:
    place.mkdir(parents=True, exist_ok=True)
    ensure_disk(place)
    work = Path(tempfile.mkdtemp(prefix="work-", dir=place)).resolve()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _say(words: str) -> None:
    sys.stderr.write(f"{words}\n")


sys.exit(main(sys.argv[1:]))
