"""Runs all components of the demo until SIGTERM or SIGINT: `python -m rig.demo.holder DIR`."""

import json
import os
import signal
import sys
import threading
from pathlib import Path

from rig.binaries import find
from rig.control_plane import ControlPlane
from rig.demo import parts
from rig.hub import Hub
from rig.larder import LarderCluster, LarderOptions
from rig.larder.programs import NAMESPACE, Sources
from rig.larder.scheduler import LarderScheduler
from rig.model import write_model
from rig.s3 import S3
from shared.errors import LarderError

READY = "ready.json"
_SIZE_BYTES = 24 * 2**20


def main(state: Path) -> int:
    """Start everything, write the addresses to `ready.json`, and stop everything on SIGTERM or SIGINT."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    binaries = find(os.environ)
    with (
        ControlPlane(binaries, state / "control-plane") as plane,
        S3(binaries, state / "s3") as s3,
        Hub(state / "hub") as hub,
    ):
        s3.put_folder(parts.BUCKET, parts.CACHE, write_model(state / "llama-3", size_bytes=_SIZE_BYTES, seed=3))
        hub.push(parts.REPOSITORY, write_model(state / "llama-2", size_bytes=_SIZE_BYTES, seed=2))
        sources = Sources(hf_endpoint=hub.endpoint, s3_endpoint=s3.endpoint, allow_addresses="127.0.0.1/32")
        options = LarderOptions(sources, {"LARDER_SCHEDULER": "true"})
        with (
            LarderCluster(plane, state, options) as cluster,
            LarderScheduler(binaries, plane, cluster.controllers[0], state / "scheduler"),
        ):
            for name, labels in parts.NODES.items():
                cluster.nodes.add(name, labels)
                if labels:
                    cluster.api.patch(f"/api/v1/nodes/{name}", parts.advertised(name))
            for name in parts.NODES:
                cluster.start_agent(name, wait=False)
            cluster.wait_agents()
            path = f"/api/v1/namespaces/{NAMESPACE}/secrets"
            cluster.api.ensure(path, parts.secret(s3.access_key, s3.secret_key, NAMESPACE))
            _write_facts(state, plane.kubeconfig, s3.endpoint, hub.endpoint)
            stop.wait()
    return 0


def _write_facts(state: Path, kubeconfig: Path, s3: str, hub: str) -> None:
    facts = {"kubeconfig": str(kubeconfig), "s3": s3, "hub": hub, "pid": os.getpid()}
    unfinished = state / f".{READY}"
    unfinished.write_text(json.dumps(facts))
    unfinished.rename(state / READY)


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1])))
    except LarderError as error:
        sys.exit(f"{error.reason}: {error}")
