"""The JobSet controller as a process beside the control plane, with its webhooks active."""

import os
from pathlib import Path

import yaml

from rig.binaries import JOBSET, locate
from rig.control_plane import ControlPlane
from rig.errors import MissingBinaries
from rig.jobset.files import FILES
from rig.larder.programs import answers
from rig.ports import LOOPBACK, free_port
from rig.processes import Process, Program, wait_until
from rig.running import Running
from rig.webhooks_of_others import webhooks_at

NAMESPACE = "jobset-system"
_READY_S = 120.0
_SERVED_S = 60.0
_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"


class JobSet(Running):
    """JobSet, which creates the Jobs of JobSets, and creates all of them again when one fails."""

    def __init__(self, plane: ControlPlane, state: Path) -> None:
        self._plane, self._state = plane, state
        self._program = locate(JOBSET, os.environ)
        self._files = FILES.find(os.environ)
        self._process: Process | None = None

    def start(self) -> None:
        """Install the CRD, start the controller, and wait until JobSets pass its webhook."""
        if self._program is None:
            raise MissingBinaries(f"{JOBSET.name} is not there; run: make setup && .venv/bin/python -m rig setup")
        api = self._plane.api
        api.ensure("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        (definition,) = (self._files / "crd").rglob("*.yaml")
        api.ensure(_DEFINITIONS, yaml.load(definition.read_text(), yaml.CSafeLoader))
        wait_until(lambda: api.answers(_JOBSETS), _SERVED_S, "JobSets to be served")
        url = self._run(self._program)
        for found in webhooks_at(self._files / "webhook" / "manifests.yaml", "jobset", url, self._plane.ca_pem):
            api.ensure(f"{_REGISTRATION}/{found['kind'].lower()}s", found)

    def stop(self) -> None:
        """Stop the controller; the objects stay."""
        if self._process is not None:
            self._process.stop()

    def _run(self, program: Path) -> str:
        certificates, port, probe = self._state / "certificates", free_port(), free_port()
        certificates.mkdir(parents=True)
        pair = self._plane.server_certificate()
        (certificates / "tls.crt").write_bytes(pair.public_pem)
        (certificates / "tls.key").write_bytes(pair.private_pem)
        configuration = {
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "internalCertManagement": {"enable": False},
            "leaderElection": {"leaderElect": False},
            "webhook": {"host": LOOPBACK, "port": port, "certDir": str(certificates)},
        }
        (config := self._state / "configuration.yaml").write_text(yaml.safe_dump(configuration))
        argv = [
            str(program),
            f"--config={config}",
            f"--health-probe-bind-address={LOOPBACK}:{probe}",
            "--metrics-bind-address=0",
        ]
        environ = {"KUBECONFIG": str(self._plane.kubeconfig)}
        self._process = Process(Program(JOBSET.name, argv, environ), self._state / "log" / f"{JOBSET.name}.log")
        self._process.wait_ready(lambda: answers(probe), _READY_S)
        return f"https://{LOOPBACK}:{port}"
