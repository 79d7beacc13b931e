"""The scheduler of the chart, started as in a cluster: an unmodified kube-scheduler with our extender."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from controller.extender.callers import extender_key
from rig import control_plane_flags as flags
from rig.binaries import Binaries
from rig.control_plane import ControlPlane
from rig.larder.programs import ADMISSION_KEY, ControllerProgram
from rig.ports import LOOPBACK, free_port
from rig.processes import Process, Program
from rig.running import RunningProcess
from shared.devices.scheduler import DEVICES_RESOURCE, SCHEDULER_NAME

_READY_S = 120.0
_ALTERNATIVES = {"name": "DynamicResources", "weight": 100}  # scores the alternatives of ResourceClaims


class LarderScheduler(RunningProcess):
    """The scheduler; its extender is one replica of the controller, where a cluster has a Service.

    `answer_ms` is how long it waits for an answer, by default as in the chart.
    """

    def __init__(
        self,
        binaries: Binaries,
        plane: ControlPlane,
        controller: ControllerProgram,
        state: Path,
        answer_ms: int = 500,
    ) -> None:
        self._binaries, self._plane, self._controller, self._state = binaries, plane, controller, state
        self._answer_ms = answer_ms

    @property
    def log(self) -> Path:
        """The log of the scheduler."""
        return self._state / "larder-scheduler.log"

    def start(self) -> None:
        """Start the scheduler, and wait until it is healthy."""
        self._state.mkdir(parents=True, exist_ok=True)
        files, port = flags.Files(self._plane.state), free_port()
        kubeconfig = self._plane.kubeconfig_for("system:kube-scheduler")
        config = self._state / "scheduler.json"
        config.write_text(json.dumps(scheduler_config(self._controller, kubeconfig, self._answer_ms)))
        argv = [str(self._binaries.kube_scheduler), *flags.scheduler(files, port, config)]
        self._process = Process(Program("larder-scheduler", argv), self.log)
        url = f"https://{LOOPBACK}:{port}/healthz"
        self._process.wait_ready(partial(flags.healthy, url, self._plane.client_context()), _READY_S)


def scheduler_config(controller: ControllerProgram, kubeconfig: Path, answer_ms: int) -> dict[str, Any]:
    """Return the chart's configuration of the scheduler, with one replica as its extender."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 500, "burst": 1000},
        "leaderElection": {"leaderElect": False},
        "profiles": [
            {
                "schedulerName": SCHEDULER_NAME,
                "percentageOfNodesToScore": 100,
                "plugins": {"multiPoint": {"enabled": [_ALTERNATIVES]}},
            }
        ],
        "extenders": [
            {
                "urlPrefix": f"{controller.url}/scheduler/{extender_key(ADMISSION_KEY)}",
                "filterVerb": "filter",
                "prioritizeVerb": "prioritize",
                "bindVerb": "bind",
                "weight": 100,
                "enableHTTPS": True,
                "tlsConfig": {"caFile": str(controller.ca)},
                "nodeCacheCapable": True,
                "httpTimeout": f"{answer_ms}ms",
                "ignorable": False,
                "managedResources": [{"name": DEVICES_RESOURCE, "ignoredByScheduler": True}],
            }
        ],
    }
