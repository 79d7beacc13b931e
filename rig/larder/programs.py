"""The two programs of Larder, started as in a cluster: with tokens, and settings from the environment."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from rig import agents, plain_http
from rig.agents import AgentPod
from rig.control_plane import ControlPlane
from rig.ports import LOOPBACK, free_port
from rig.processes import Process, Program

NAMESPACE = "larder-system"
CONTROLLER = "larder-controller"
AGENT = "larder-agent"
AUDIENCE = "larder"
ADMISSION_KEY = "the-key-of-the-rig-of-forty-letters-or-so"
ADMISSION_TIMEOUT_S = 30  # the maximum: on a busy machine a review may take longer than in a cluster
STORE_ROOT = "/var/lib/larder"  # where pods would find the store on a node; the nodes of the rig keep theirs elsewhere
_READY_S = 120.0


def python(module: str, *arguments: str) -> list[str]:
    """Return the command that runs one of our programs."""
    return [sys.executable, "-m", module, *arguments]


@dataclass(frozen=True)
class Sources:
    """The source settings of this installation."""

    hf_endpoint: str = ""
    s3_endpoint: str = ""
    allow_addresses: str = ""
    ca_bundle: str = ""

    def environ(self) -> dict[str, str]:
        """Return the settings as environment variables for both programs."""
        named = {
            "HF_ENDPOINT": self.hf_endpoint,
            "AWS_ENDPOINT_URL": self.s3_endpoint,
            "LARDER_ALLOW_ADDRESSES": self.allow_addresses,
            "SSL_CERT_FILE": self.ca_bundle,
        }
        return {key: value for key, value in named.items() if value}


class _OurProgram:
    """A program of Larder with its own directory."""

    def __init__(self, plane: ControlPlane, state: Path, environ: dict[str, str]) -> None:
        self._plane, self._state, self._environ = plane, state, environ
        self.log = state / "program.log"
        self._process: Process | None = None

    @property
    def started(self) -> bool:
        """Whether the program was ever started."""
        return self._process is not None

    @property
    def process(self) -> Process:
        """The running process."""
        assert self._process is not None  # noqa: S101 - a property of the running program
        return self._process


class ControllerProgram(_OurProgram):
    """One replica of the controller."""

    def __init__(self, plane: ControlPlane, state: Path, name: str, environ: dict[str, str], api_url: str = "") -> None:
        super().__init__(plane, state / name, environ)
        self.name, self._api_url = name, api_url
        self.port, self.health_port = free_port(), free_port()

    @property
    def url(self) -> str:
        """The address of admission and of the API for agents."""
        return f"https://{LOOPBACK}:{self.port}"

    @property
    def ca(self) -> Path:
        """The CA certificate for its server."""
        return self._state / "ca.crt"

    def start(self) -> None:
        """Start the controller with a token of its service account, and wait until it is ready."""
        self._state.mkdir(parents=True, exist_ok=True)
        pair = self._plane.server_certificate(dns=[f"larder.{NAMESPACE}.svc"])
        certificate, key = self._state / "tls.crt", self._state / "tls.key"
        certificate.write_bytes(pair.public_pem)
        key.write_bytes(pair.private_pem)
        key.chmod(0o600)
        self.ca.write_bytes(self._plane.ca_pem)
        keys = self._state / "admission-keys"
        keys.write_text(ADMISSION_KEY)
        kubeconfig = self._plane.token_kubeconfig(self._token(), self._state / "kubeconfig", self._api_url)
        environ = {
            "LARDER_NAMESPACE": NAMESPACE,
            "LARDER_IDENTITY": self.name,
            "LARDER_KUBECONFIG": str(kubeconfig),
            "LARDER_STORE_ROOT": STORE_ROOT,
            "LARDER_LISTEN": f"{LOOPBACK}:{self.port}",
            "LARDER_ADVERTISE": f"{LOOPBACK}:{self.port}",
            "LARDER_TLS_NAME": f"larder.{NAMESPACE}.svc",
            "LARDER_LISTEN_HEALTH": f"{LOOPBACK}:{self.health_port}",
            "LARDER_INFERENCE_SERVICES": "true",
            "LARDER_MODELS": "true",
            "LARDER_TRAINING_JOBS": "true",
            "LARDER_CERTIFICATE": str(certificate),
            "LARDER_PRIVATE_KEY": str(key),
            "LARDER_CA": str(self.ca),
            "LARDER_ADMISSION_KEYS": str(keys),
        } | self._environ
        program = Program(self.name, python("controller"), environ)
        self._process = Process(program, self.log)
        self._process.wait_ready(lambda: answers(self.health_port), _READY_S)

    def _token(self) -> str:
        request = {"spec": {"expirationSeconds": 24 * 3600}}
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{CONTROLLER}/token"
        return str(self._plane.api.create(path, request)["status"]["token"])


class AgentProgram(_OurProgram):
    """The agent of one node, with the pod that it represents and its own store."""

    def __init__(self, plane: ControlPlane, state: Path, node: str, environ: dict[str, str]) -> None:
        super().__init__(plane, state / f"agent-{node}", environ)
        self.node, self.port = node, free_port()
        self.root = self._state / "store"
        self._pod: AgentPod | None = None

    @property
    def token_file(self) -> Path:
        """The file with its token for the controller."""
        return self._state / "token"

    def start(self, api_url: str, api_ca: Path, *, wait: bool = True) -> None:
        """Start the agent, with a new pod unless its own still exists, and wait until it is ready."""
        self._state.mkdir(parents=True, exist_ok=True)
        self.root.mkdir(exist_ok=True)
        api = self._plane.api
        if self._pod is None:
            self._pod = agents.create_agent_pod(
                api, self.node, probe_port=self.port, service_account=AGENT, namespace=NAMESPACE
            )
        kubeconfig = self._plane.token_kubeconfig(agents.token(api, self._pod), self._state / "kubeconfig")
        self.token_file.touch(mode=0o600)
        self.token_file.write_text(agents.token(api, self._pod, [AUDIENCE]))
        arguments = [
            f"--node-name={self.node}",
            f"--root={self.root}",
            f"--kubeconfig={kubeconfig}",
            f"--api-url={api_url}",
            f"--api-ca={api_ca}",
            f"--token-file={self.token_file}",
            f"--listen={LOOPBACK}:{self.port}",
        ]
        environ = {"LARDER_FLOOR": "0", "LARDER_SCAN_SECONDS": "1"} | self._environ
        self._process = Process(Program(f"agent-{self.node}", python("agent", *arguments), environ), self.log)
        if wait:
            self._process.wait_ready(lambda: answers(self.port), _READY_S)

    def remove(self) -> None:
        """Stop the agent and delete its pod, as when the DaemonSet no longer selects the node."""
        self.process.stop()
        if self._pod is not None:
            agents.delete_agent_pod(self._plane.api, self._pod)
            self._pod = None

    def wipe(self) -> None:
        """Empty the store, as when the disk of the node is replaced."""
        for folder in sorted(self.root.rglob("*"), reverse=True):
            if folder.is_dir() and not folder.is_symlink():
                os.chmod(folder, 0o755)  # noqa: PTH101, S103 - the read-only directories of snapshots cannot be emptied otherwise
        shutil.rmtree(self.root)
        self.root.mkdir()


def answers(port: int) -> bool:
    """Return whether a program reports that it is ready."""
    return plain_http.succeeds(f"http://{LOOPBACK}:{port}/readyz")
