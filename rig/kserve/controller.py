"""The KServe controller as a process beside the control plane, with its webhooks active."""

import os
from functools import partial
from pathlib import Path

from rig.binaries import KSERVE, locate
from rig.control_plane import ControlPlane
from rig.errors import MissingBinaries
from rig.kserve import manifests
from rig.kserve.files import FILES
from rig.larder.programs import answers
from rig.ports import LOOPBACK, free_port
from rig.processes import Process, Program, wait_until
from rig.running import RunningProcess
from rig.webhooks_of_others import wait_served
from shared.json_object import Json

_READY_S = 120.0
_SERVED_S = 60.0
_CERTIFICATES = Path("k8s-webhook-server", "serving-certs")  # below the directory for temporary files


class KServe(RunningProcess):
    """KServe in `Standard` mode, which creates Deployments; use as a context manager."""

    def __init__(self, plane: ControlPlane, state: Path) -> None:
        self._plane, self._state = plane, state
        self._program = locate(KSERVE, os.environ)
        self._files = FILES.find(os.environ)

    def start(self) -> None:
        """Install CRDs and configuration, start the controller, and wait until pods pass its webhook."""
        if self._program is None:
            raise MissingBinaries(f"{KSERVE.name} not found; run: make setup && .venv/bin/python -m rig setup")
        self._install_kinds()
        api = self._plane.api
        api.ensure("/api/v1/namespaces", {"metadata": {"name": manifests.NAMESPACE}})
        api.ensure(*self._posted(manifests.configuration(self._files)))
        url = self._run(self._program)
        webhooks = manifests.webhooks(self._files, url, self._plane.ca_pem)
        wait_served(webhooks, self._plane.ca_pem)
        for webhook in webhooks:
            api.ensure(*self._posted(webhook))
        for default in manifests.defaults(self._files):
            api.ensure(*self._posted(default))

    def _install_kinds(self) -> None:
        """Install the CRDs and wait until discovery lists their kinds, which KServe checks only once at start."""
        api, found = self._plane.api, manifests.definitions(self._files)
        for definition in found:
            api.ensure(*self._posted(definition))
        for definition in found:
            spec = definition["spec"]
            path, kind = f"/apis/{spec['group']}/{spec['versions'][-1]['name']}", spec["names"]["kind"]
            listed = partial(api.lists_kind, path, kind)
            wait_until(listed, _SERVED_S, f"{kind} in the list of {path}")

    def _run(self, program: Path) -> str:
        certificates, port, probe = self._state / _CERTIFICATES, free_port(), free_port()
        certificates.mkdir(parents=True)
        pair = self._plane.server_certificate()
        (certificates / "tls.crt").write_bytes(pair.public_pem)
        (certificates / "tls.key").write_bytes(pair.private_pem)
        argv = [str(program), f"--webhook-port={port}", f"--health-probe-addr={LOOPBACK}:{probe}", "--metrics-addr=0"]
        environ = {
            "KUBECONFIG": str(self._plane.kubeconfig),
            "POD_NAMESPACE": manifests.NAMESPACE,
            "TMPDIR": str(self._state),
        }
        self._process = Process(Program(KSERVE.name, argv, environ), self._state / "log" / f"{KSERVE.name}.log")
        self._process.wait_ready(lambda: answers(probe), _READY_S)
        return f"https://{LOOPBACK}:{port}"

    @staticmethod
    def _posted(manifest: Json) -> tuple[str, Json]:
        return manifests.collection_of(manifest), manifest
