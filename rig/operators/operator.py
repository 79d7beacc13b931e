"""An operator as a process beside the control plane, with its CRDs and webhooks."""

import base64
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rig.binaries import Binary, locate
from rig.control_plane import ControlPlane
from rig.errors import MissingBinaries
from rig.larder.programs import answers
from rig.module_files import ModuleFiles
from rig.ports import LOOPBACK, free_port
from rig.processes import Process, Program, wait_until
from rig.running import RunningProcess
from rig.webhooks_of_others import wait_served, webhooks_at
from shared.json_object import Json

_UNSHARE = "/usr/bin/unshare"
_READY_S = 120.0
_SERVED_S = 60.0
_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@dataclass(frozen=True)
class OperatorRelease:
    """One operator: its program, the CRDs and webhooks of its module, and how it is configured.

    Args:
        binary: The program.
        files: Its files: the CRDs in a folder `crd`, and the webhooks in `webhook/manifests.yaml`.
        api: The apiVersion of its configuration.
        settings: The fields of the configuration other than addresses and certificates.
        pods: The label of the pods that it manages; its webhooks for pods are limited to these.
        converts: The kinds whose versions its webhook converts; the versions of other kinds have the same fields.
        etc: A directory below /etc, from which it reads a certificate whatever its configuration says.
    """

    binary: Binary
    files: ModuleFiles
    api: str
    settings: Json
    pods: str
    converts: frozenset[str] = frozenset()
    etc: str = ""


class Operator(RunningProcess):
    """An operator; use as a context manager."""

    def __init__(self, release: OperatorRelease, plane: ControlPlane, state: Path) -> None:
        self._release, self._plane, self._state = release, plane, state
        self._name = release.binary.name
        self._program = locate(release.binary, os.environ)
        self._files = release.files.find(os.environ)

    def start(self) -> None:
        """Install the CRDs, start the operator, and wait until objects pass its webhooks."""
        if self._program is None:
            raise MissingBinaries(f"{self._name} not found; run: make setup && .venv/bin/python -m rig setup")
        self._state.mkdir(parents=True)
        port = free_port()
        url = f"https://{LOOPBACK}:{port}"
        for path in sorted(self._files.rglob("crd/**/*.yaml")):
            self._define(yaml.load(path.read_text(), yaml.CSafeLoader), url)
        self._run(self._program, port)
        (manifests,) = self._files.rglob("webhook/manifests.yaml")
        configurations = webhooks_at(manifests, self._name, url, self._plane.ca_pem)
        wait_served(configurations, self._plane.ca_pem)
        for found in configurations:
            self._confine_to_own_pods(found)
            self._plane.api.ensure(f"{_REGISTRATION}/{found['kind'].lower()}s", found)

    def _define(self, definition: Json, url: str) -> None:
        spec = definition["spec"]
        kind = spec["names"]["kind"]
        if kind in self._release.converts:
            client = {"url": f"{url}/convert", "caBundle": base64.b64encode(self._plane.ca_pem).decode()}
            webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
            spec["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        self._plane.api.ensure(_DEFINITIONS, definition)
        served = f"/apis/{spec['group']}/{spec['versions'][-1]['name']}"
        wait_until(lambda: self._plane.api.lists_kind(served, kind), _SERVED_S, f"{kind} in the list of {served}")

    def _confine_to_own_pods(self, configuration: Json) -> None:
        """Limit webhooks for pods to the operator's own, as its installation does by patching its manifests."""
        for webhook in configuration["webhooks"]:
            if any("pods" in rule["resources"] for rule in webhook["rules"]):
                asked = [{"key": self._release.pods, "operator": "Exists"}]
                webhook["objectSelector"] = {"matchExpressions": asked}

    def _run(self, program: Path, port: int) -> None:
        certificates = self._write_certificate(self._state / "certificates")
        probe = free_port()
        configuration: dict[str, Any] = {
            "apiVersion": self._release.api,
            "kind": "Configuration",
            "internalCertManagement": {"enable": False},
            "leaderElection": {"leaderElect": False},
            "webhook": {"host": LOOPBACK, "port": port, "certDir": str(certificates)},
            "health": {"healthProbeBindAddress": f"{LOOPBACK}:{probe}"},
            "metrics": {"bindAddress": "0"},
        }
        (config := self._state / "configuration.yaml").write_text(
            yaml.safe_dump(configuration | self._release.settings)
        )
        argv = [*self._with_etc(), str(program), f"--config={config}"]
        environ = {"KUBECONFIG": str(self._plane.kubeconfig)}
        self._process = Process(Program(self._name, argv, environ), self._state / "log" / f"{self._name}.log")
        self._process.wait_ready(lambda: answers(probe), _READY_S)

    def _with_etc(self) -> list[str]:
        """Return a command prefix that replaces /etc by a directory with only the certificate that it needs there."""
        if not self._release.etc:
            return []
        self._write_certificate((own := self._state / "etc") / self._release.etc)
        return [_UNSHARE, "--map-root-user", "--mount", "sh", "-c", 'mount --bind "$0" /etc && exec "$@"', str(own)]

    def _write_certificate(self, folder: Path) -> Path:
        folder.mkdir(parents=True)
        pair = self._plane.server_certificate()
        (folder / "tls.crt").write_bytes(pair.public_pem)
        (folder / "tls.key").write_bytes(pair.private_pem)
        return folder
