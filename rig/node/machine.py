"""A bare machine: its own namespaces over a disk that outlives them."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from rig.node import cgroups, programs
from rig.node.addresses import NodeAddresses
from rig.node.lan import Lan
from rig.node.namespaces import command
from rig.processes import Process, Program, wait_until

KUBELET = "/var/lib/kubelet"
CONTAINERD = "/var/lib/containerd"
STORE = "/var/lib/larder"
ON_DISK = (KUBELET, CONTAINERD, STORE, "/var/log/pods", "/var/log/containers")
_BOOT = Path(__file__).with_name("boot.sh")
_BOOT_S = 60.0


class Machine:
    """A machine that is off at first; `boot` and `shut` can be repeated."""

    def __init__(self, name: str, addresses: NodeAddresses, lan: Lan, state: Path) -> None:
        self.name, self.addresses = name, addresses
        self.disk = state / name
        self.cgroup = cgroups.name_of(name)
        self._lan = lan
        self._holder: Process | None = None
        self._init = 0
        self._processes: list[Process] = []

    @property
    def init(self) -> int:
        """The process id of its first process, as seen from outside."""
        return self._init

    def log(self, program: str) -> Path:
        """Return the log file of a program on this machine."""
        return self.disk / "log" / f"{program}.log"

    def boot(self) -> None:
        """Create the namespaces, mount the disk and join the network."""
        booted = self.disk / "booted"
        booted.unlink(missing_ok=True)
        cgroups.sweep()
        cgroups.create(self.cgroup)
        argv = [programs.UNSHARE, "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child"]
        argv += ["--mount-proc", "--propagation=private", "/bin/sh", str(_BOOT), str(self.disk), self.name, *ON_DISK]
        self._holder = Process(Program(self.name, argv), self.log("boot"))
        self._holder.wait_ready(lambda: booted.exists() and booted.read_text().strip() == "1", _BOOT_S, "booted")
        self._init = _only_child(self._holder.pid)
        self._lan.attach(self.addresses, self._init)

    def shut(self) -> None:
        """Kill all processes of the machine at once, like a power failure; the disk stays."""
        if self._holder is None:
            return
        self._holder.kill()
        init, self._holder = self._init, None
        if init:
            wait_until(lambda: not Path(f"/proc/{init}").exists(), _BOOT_S, f"the end of machine {self.name}")
        while self._processes:
            self._processes.pop().kill()  # nsenter, which runs outside the namespaces
        cgroups.remove(self.cgroup)

    def discard(self) -> None:
        """Discard the content of the disk; logs and settings stay."""
        shutil.rmtree(self.disk / "var", ignore_errors=True)

    def start(self, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None) -> Process:
        """Start a program on the machine; killing the returned process kills the program."""
        inside = [*self._enter, programs.SETPRIV, "--pdeathsig=KILL", "--", *argv]
        process = Process(Program(name, inside, env or {}), self.log(name))
        self._processes.append(process)
        return process

    def run(self, argv: Sequence[str], stdin: str = "") -> str:
        """Run a short program on the machine and return its output; raises StartFailed with the error."""
        return command([*self._enter, *argv], stdin)

    @property
    def _enter(self) -> list[str]:
        namespaces = ["--mount", "--pid", "--net", "--uts", "--ipc"]
        return [programs.NSENTER, f"--target={self._init}", *namespaces, "--"]


def _only_child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
