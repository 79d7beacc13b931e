"""A storage class with a real provisioner: directories on the nodes, created when the first pod is scheduled."""

import json
import os
from pathlib import Path

import yaml

from rig.api import Api
from rig.binaries import LOCAL_PATH, locate
from rig.errors import MissingBinaries
from rig.node.images import CONTROLLER
from rig.processes import Process, Program
from rig.running import RunningProcess

CLASS = "local-path"
_NAMESPACE, _CONFIG = "local-path-storage", "local-path-config"
_PROVISIONER = "rancher.io/local-path"
_SCRIPTS = {
    "setup": '#!/bin/sh\nset -eu\nmkdir -m 0777 -p "$VOL_DIR"\n',
    "teardown": '#!/bin/sh\nset -eu\nrm -rf "$VOL_DIR"\n',
}


class LocalPath(RunningProcess):
    """The provisioner as a process beside the cluster, whose helper pods run on the nodes; use as a context manager.

    Args:
        api: A client with all rights.
        kubeconfig: The kubeconfig of an administrator.
        state: Directory for its files, its log and the volumes, seen by nodes under the same path.
    """

    def __init__(self, api: Api, kubeconfig: Path, state: Path) -> None:
        self._api, self._kubeconfig, self._state = api, kubeconfig, state

    @property
    def volumes(self) -> Path:
        """The directory with a folder for each volume."""
        return self._state / "volumes"

    def start(self) -> None:
        """Create the class, and start the provisioner."""
        program = locate(LOCAL_PATH, os.environ)
        if program is None:
            raise MissingBinaries(f"{LOCAL_PATH.name} not found; run: .venv/bin/python -m rig node setup")
        self.volumes.mkdir(parents=True)
        self._api.ensure("/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
        self._api.ensure(
            f"/api/v1/namespaces/{_NAMESPACE}/configmaps", {"metadata": {"name": _CONFIG}, "data": _SCRIPTS}
        )
        self._api.ensure(
            "/apis/storage.k8s.io/v1/storageclasses",
            {
                "metadata": {"name": CLASS},
                "provisioner": _PROVISIONER,
                "volumeBindingMode": "WaitForFirstConsumer",
                "reclaimPolicy": "Delete",
            },
        )
        argv = [
            str(program), "start", f"--kubeconfig={self._kubeconfig}", f"--namespace={_NAMESPACE}",
            f"--config={self._paths()}", f"--helper-pod-file={self._helper()}", f"--helper-image={CONTROLLER}",
            f"--configmap-name={_CONFIG}", "--service-account-name=default",
        ]  # fmt: skip
        self._process = Process(Program(LOCAL_PATH.name, argv), self._state / "provisioner.log")

    def _paths(self) -> Path:
        place = {"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": [str(self.volumes)]}
        path = self._state / "config.json"
        path.write_text(json.dumps({"nodePathMap": [place]}))
        return path

    def _helper(self) -> Path:
        container = {
            "name": "helper-pod", "image": CONTROLLER, "imagePullPolicy": "Never",
            "securityContext": {"runAsUser": 0, "runAsNonRoot": False},
        }  # fmt: skip
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "helper-pod"},
            "spec": {"containers": [container]},
        }
        path = self._state / "helper.yaml"
        path.write_text(yaml.safe_dump(pod))
        return path
