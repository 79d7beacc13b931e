"""The Karpenter controller as a process beside the control plane."""

import os
from pathlib import Path

import yaml

from rig.binaries import KARPENTER, locate
from rig.control_plane import ControlPlane
from rig.errors import MissingBinaries
from rig.karpenter.files import FILES
from rig.karpenter.instance_types import instance_types
from rig.larder.programs import answers
from rig.ports import free_port
from rig.processes import Process, Program, wait_until
from rig.running import RunningProcess

_READY_S = 120.0
_SERVED_S = 60.0
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Karpenter(RunningProcess):
    """Karpenter, which creates a Node for pods that fit no node but would fit one of a NodePool."""

    def __init__(self, plane: ControlPlane, state: Path) -> None:
        self._plane, self._state = plane, state
        self._program = locate(KARPENTER, os.environ)
        self._files = FILES.find(os.environ)

    def start(self) -> None:
        """Install the CRDs, start the controller and wait until it is ready."""
        if self._program is None:
            raise MissingBinaries(f"{KARPENTER.name} not found; run: make setup && .venv/bin/python -m rig setup")
        for path in sorted(self._files.rglob("*.yaml")):
            self._install(path)
        self._state.mkdir(parents=True)
        types, probe = self._state / "instance-types.json", free_port()
        types.write_text(instance_types())
        argv = [
            str(self._program),
            f"--health-probe-port={probe}",
            "--metrics-port=0",
            "--disable-leader-election=true",
        ]
        argv += [f"--instance-types-file-path={types}"]
        environ = {"KUBECONFIG": str(self._plane.kubeconfig)}
        self._process = Process(Program(KARPENTER.name, argv, environ), self._state / "log" / f"{KARPENTER.name}.log")
        self._process.wait_ready(lambda: answers(probe), _READY_S)

    def _install(self, path: Path) -> None:
        definition = yaml.load(path.read_text(), yaml.CSafeLoader)
        self._plane.api.ensure(_DEFINITIONS, definition)
        spec = definition["spec"]
        served = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        wait_until(lambda: self._plane.api.answers(served), _SERVED_S, f"{served} to be served")
