"""Records all label sets of a node over time, as the API server reports them to watchers."""

import json
from pathlib import Path

from rig.node.cluster import NodeCluster
from rig.processes import Process, Program
from rig.running import Running

_START_S = 60.0


class LabelLog(Running):
    """Watches one node; use as a context manager. The record stays available afterwards."""

    def __init__(self, cluster: NodeCluster, node: str, folder: Path) -> None:
        argv = [str(cluster.tools.plane.kubectl), f"--kubeconfig={cluster.kubeconfig}", "get", "node", node]
        argv += ["--watch", "--output=jsonpath={.metadata.labels}{'\\n'}"]
        self._process = Process(Program(f"labels-{node}", argv), folder / f"labels-{node}.log")

    def start(self) -> None:
        """Start watching, and wait until the node has been seen once."""
        self._process.wait_ready(lambda: bool(self.seen()), _START_S, "watching")

    def stop(self) -> None:
        """Stop watching."""
        self._process.stop()

    def seen(self) -> list[dict[str, str]]:
        """Return the labels after each change of the node, in order."""
        lines = self._process.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def always(self, label: str) -> bool:
        """Return whether the label was present all the time."""
        return all(label in labels for labels in self.seen())
