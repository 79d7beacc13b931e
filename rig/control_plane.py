"""A real control plane on loopback: etcd, kube-apiserver, kube-controller-manager, kube-scheduler."""

import ssl
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rig import control_plane_flags as flags
from rig import kubeconfig
from rig.api import Api
from rig.binaries import Binaries
from rig.pki import Authority, Pair, signing_pair
from rig.ports import LOOPBACK, free_port
from rig.processes import Process, Program, wait_until
from rig.running import Running

_READY_S = 120.0
_STOP_GRACE_S = 2.0
_CONTROLLER_MANAGER = "kube-controller-manager"
_FOLLOWERS = (_CONTROLLER_MANAGER, "kube-scheduler")
_ENV = {"GOGC": "400"}  # more memory for less CPU: by default, a quarter of their CPU time is garbage collection


@dataclass(frozen=True)
class Options:
    """Options of a control plane.

    Args:
        node_lost_after_s: Seconds without a heartbeat after which a node becomes NotReady.
        scheduler_config: A KubeSchedulerConfiguration file.
        enter: A prefix of every command line. It may enter another network namespace, whose loopback ports must then be
            forwarded to ours.
        address: The address at which real nodes reach the API server in that namespace.
        authorization: Authorization modes. Since 1.36, the API server never becomes ready with `Node` but without
            resource.k8s.io/v1.
    """

    node_lost_after_s: float = 6.0
    apiserver_flags: Sequence[str] = ()
    scheduler_config: Path | None = None
    enter: Sequence[str] = ()
    address: str = LOOPBACK
    authorization: str = flags.NODE_AND_RBAC


class ControlPlane(Running):
    """The four programs, with certificates and logs below one directory; use as a context manager."""

    def __init__(self, binaries: Binaries, state: Path, options: Options | None = None) -> None:
        self.state = state.absolute()
        self.server = (LOOPBACK, free_port())
        self.kubeconfig = self.state / "admin.kubeconfig"
        self._binaries, self._options = binaries, options or Options()
        self._authority = Authority("rig-ca")
        self._files = flags.Files(self.state)
        self._processes: dict[str, Process] = {}
        self._etcd_port, self._follower_ports = free_port(), {name: free_port() for name in _FOLLOWERS}
        self._etcd_url = f"http://{LOOPBACK}:{self._etcd_port}"
        self._closing = ExitStack()

    @property
    def url(self) -> str:
        """The address of the API server."""
        return f"https://{self.server[0]}:{self.server[1]}"

    @property
    def ports(self) -> tuple[int, ...]:
        """The loopback ports of the programs."""
        return (self.server[1], self._etcd_port, *self._follower_ports.values())

    @property
    def node_url(self) -> str:
        """The address of the API server for nodes."""
        return f"https://{self._options.address}:{self.server[1]}"

    @property
    def ca_pem(self) -> bytes:
        """The CA certificate of the API server."""
        return self._authority.ca_pem

    def start(self) -> None:
        """Start all programs and wait until they are ready and pods can be created."""
        self._write_credentials()
        self.api = self.api_for("admin", ["system:masters"])
        self._closing.callback(self.api.close)
        self._start_etcd()
        self._start_apiserver()
        self._start_followers()
        wait_until(
            lambda: self.api.answers("/api/v1/namespaces/default/serviceaccounts/default"),
            _READY_S,
            "the default service account",
        )

    def stop(self) -> None:
        """Stop all programs in reverse order."""
        while self._processes:
            _, process = self._processes.popitem()
            process.stop(_STOP_GRACE_S)
        self._closing.close()

    def pids(self) -> dict[str, int]:
        """Return the process id of each program by name."""
        return {name: process.pid for name, process in self._processes.items()}

    def stop_apiserver(self) -> None:
        """Kill the API server (KILL), as a crash would."""
        self._processes.pop("kube-apiserver").kill()

    def resume_apiserver(self) -> None:
        """Start the API server again on the same port, and wait until pods are scheduled.

        Scheduler and controller manager are restarted, because their backoff grows to 30 s during an outage.
        """
        self._start_apiserver()
        for name in _FOLLOWERS:
            self._processes.pop(name).stop(_STOP_GRACE_S)
        self._start_followers()

    def restart_apiserver(self) -> None:
        """Kill the API server and start it again."""
        self.stop_apiserver()
        self.resume_apiserver()

    def stop_controller_manager(self) -> None:
        """Kill the controller manager, which binds claims, creates the pods of Deployments, and watches nodes."""
        self._processes.pop(_CONTROLLER_MANAGER).kill()

    def resume_controller_manager(self) -> None:
        """Start the controller manager again, and wait until it is healthy."""
        self._wait_follower(_CONTROLLER_MANAGER, self._start_follower(_CONTROLLER_MANAGER))

    def kubeconfig_for(self, user: str, groups: Sequence[str] = (), path: Path | None = None, url: str = "") -> Path:
        """Return a kubeconfig with a client certificate for this user and these groups."""
        target = path or Path(tempfile.mkdtemp(dir=self.state)) / "kubeconfig"
        return kubeconfig.write(
            kubeconfig.with_certificate(url or self.url, self.ca_pem, self._authority.issue(user, groups)), target
        )

    def token_kubeconfig(self, token: str, path: Path, url: str = "") -> Path:
        """Write a kubeconfig with a bearer token."""
        return kubeconfig.write(kubeconfig.with_token(url or self.url, self.ca_pem, token), path)

    def api_for(self, user: str, groups: Sequence[str] = ()) -> Api:
        """Return a blocking client for this user and these groups; the caller closes it."""
        context = self.client_context()
        with tempfile.NamedTemporaryFile(dir=self.state) as file:
            pair = self._authority.issue(user, groups)
            file.write(pair.private_pem + pair.public_pem)
            file.flush()
            context.load_cert_chain(file.name)
        return Api(self.url, context)

    def api_with_token(self, token: str) -> Api:
        """Return a blocking client with a bearer token; the caller closes it."""
        return Api(self.url, self.client_context(), token)

    def server_certificate(self, dns: Sequence[str] = (), ips: Sequence[str] = (LOOPBACK,)) -> Pair:
        """Return a server certificate that the cluster's CA signs, for our webhooks and APIs."""
        return self._authority.issue(dns[0] if dns else ips[0], dns=dns, ips=ips)

    def _apiserver_flags(self) -> list[str]:
        options = self._options
        return flags.apiserver(self._files, self.server[1], self._etcd_url, options.address, options.authorization)

    def client_context(self) -> ssl.SSLContext:
        """Return a TLS context that trusts the servers of this control plane."""
        return ssl.create_default_context(cadata=self.ca_pem.decode())

    def _write_credentials(self) -> None:
        files, issue = self._files, self._authority.issue
        addresses = (LOOPBACK, flags.SERVICE_IP, self._options.address)
        files.write(
            {
                "ca": Pair(self._authority.ca_pem, self._authority.ca_key_pem),
                "serving": issue("rig", dns=flags.SERVER_NAMES, ips=addresses),
                "service-accounts": signing_pair(),
                "kubelet-client": issue("kube-apiserver", ["system:masters"]),
            }
        )
        self.kubeconfig_for("admin", ["system:masters"], self.kubeconfig)
        for name in _FOLLOWERS:
            self.kubeconfig_for(f"system:{name}", (), files.kubeconfig(name))

    def _start_etcd(self) -> None:
        etcd = self._run("etcd", self._binaries.etcd, flags.etcd(self._files, self._etcd_url, free_port()))
        etcd.wait_ready(lambda: flags.healthy(f"{self._etcd_url}/health", self.client_context()), _READY_S)

    def _start_apiserver(self) -> None:
        apiserver = self._run(
            "kube-apiserver",
            self._binaries.kube_apiserver,
            [*self._apiserver_flags(), *self._options.apiserver_flags],
        )
        apiserver.wait_ready(lambda: self.api.answers("/readyz"), _READY_S)

    def _start_followers(self) -> None:
        processes = [self._start_follower(name) for name in _FOLLOWERS]
        for name, process in zip(_FOLLOWERS, processes, strict=True):
            self._wait_follower(name, process)

    def _start_follower(self, name: str) -> Process:
        port, options = self._follower_ports[name], self._options
        if name == _CONTROLLER_MANAGER:
            arguments = flags.controller_manager(self._files, port, options.node_lost_after_s)
            return self._run(name, self._binaries.kube_controller_manager, arguments)
        arguments = flags.scheduler(self._files, port, options.scheduler_config)
        return self._run(name, self._binaries.kube_scheduler, arguments)

    def _wait_follower(self, name: str, process: Process) -> None:
        url = f"https://{LOOPBACK}:{self._follower_ports[name]}/healthz"
        process.wait_ready(partial(flags.healthy, url, self.client_context()), _READY_S)

    def _run(self, name: str, path: Path, arguments: Sequence[str]) -> Process:
        program = Program(name, [*self._options.enter, str(path), *arguments], _ENV)
        self._processes[name] = Process(program, self.state / "log" / f"{name}.log")
        return self._processes[name]
