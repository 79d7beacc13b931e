"""`link`: over a simulated long-distance link between two network namespaces (root)."""

from collections.abc import Sequence
from pathlib import Path

from rig.node import programs
from rig.node.namespaces import OWN, command, network_of
from rig.processes import Process, Program
from rig.progress import Notify
from rig.running import Running
from tests.bench.transfer import report
from tests.bench.transfer.contenders import catalog
from tests.bench.transfer.figures import rows
from tests.bench.transfer.loads import Load
from tests.bench.transfer.report import Section
from tests.bench.transfer.rounds import Bench
from tests.bench.transfer.site import Site, enter_command
from tests.bench.transfer.tools import Tools

_INTERFACE = "wire0"
_MTU = 9000
_READY_S = 10.0
_SERVER, _CLIENT = "10.77.0.1", "10.77.0.2"


class Wire(Running):
    """Two networks with nothing but a link between them; both go when their holders end.

    The link is a program of ours between two TUN interfaces, for many kernels have no netem.
    """

    def __init__(self, program: Path, state: Path, round_trip_ms: float, mbit: int) -> None:
        self._program, self._state, self._delay_ms, self._mbit = program, state, round_trip_ms / 2, mbit
        self._processes: list[Process] = []

    @property
    def server(self) -> Path:
        """The network of the servers."""
        return network_of(self._processes[0].pid)

    @property
    def client(self) -> Path:
        """The network of the contenders."""
        return network_of(self._processes[1].pid)

    def start(self) -> None:
        """Create both networks and the link."""
        for name, address in (("server", _SERVER), ("client", _CLIENT)):
            self._processes.append(self._network(name, address))
        argv = [
            str(self._program),
            str(self.server),
            str(self.client),
            _INTERFACE,
            str(self._delay_ms),
            str(self._mbit),
        ]
        self._processes.append(Process(Program("wire", argv), self._state / "wire.log"))
        self._processes[-1].wait_ready(lambda: all(map(_is_up, (self.server, self.client))), _READY_S)

    def stop(self) -> None:
        """Release both networks."""
        for process in reversed(self._processes):
            process.kill()

    def _network(self, name: str, address: str) -> Process:
        outside = OWN.readlink()
        argv = [programs.UNSHARE, "--net", programs.SLEEP, "infinity"]
        holder = Process(Program(name, argv), self._state / f"{name}.log")
        holder.wait_ready(lambda: network_of(holder.pid).readlink() != outside, _READY_S)
        lines = (
            "link set lo up",
            f"tuntap add dev {_INTERFACE} mode tun",
            f"link set {_INTERFACE} mtu {_MTU} up",
            f"address add {address}/24 dev {_INTERFACE}",
        )
        command([*enter_command(network_of(holder.pid)), programs.IP, "-batch", "-"], "\n".join(lines) + "\n")
        return holder


def compare_far(
    work: Path,
    tools: Tools,
    loads: Sequence[Load],
    rounds: int,
    notify: Notify,
    *,
    round_trip_ms: float,
    mbit: int,
    connection_mib: int,
) -> Section:
    """Run the contenders of `catalog.FAR` over the link and return the section `link`."""
    capped = f", each connection held to {connection_mib} MiB/s" if connection_mib else ""
    title = f"{round_trip_ms:g} ms, {mbit} Mbit/s{capped}"
    parts = [f"## Transfer, distant server\n\nAs above, over a link of {title}."]
    pictures = {}
    contenders = [contender for contender in catalog.ALL if contender.name in catalog.FAR]
    with Wire(tools.programs["wire"], work / "link", round_trip_ms, mbit) as wire:
        site = Site(
            work / "site", loads, tools.programs["nginx"], host=_SERVER, network=wire.server,
            connection_rate=connection_mib * 2**20,
        )  # fmt: skip
        with site:
            bench = Bench(site, tools, work, notify, tuple(enter_command(wire.client)))
            for load in loads:
                results = bench.run(load, contenders, rounds)
                found = rows(load, results)
                name = f"bench-link-{load.name}.svg"
                pictures[name] = report.picture(load, found, title)
                parts += [f"### {load.spelled}, far", f"![wall seconds over the link]({name})", report.table(found)]
                parts.append(report.troubles(results, {}))
    return Section("link", "\n\n".join(part for part in parts if part), pictures)


def _is_up(network: Path) -> bool:
    return "LOWER_UP" in command([*enter_command(network), programs.IP, "link", "show", "dev", _INTERFACE])
