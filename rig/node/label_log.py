"""Every set of labels that a node has over a time, as the API server tells its watchers."""

import json
from pathlib import Path
from types import TracebackType
from typing import Self

from rig.node.cluster import NodeCluster
from rig.processes import Process, Program

_START_S = 15.0


class LabelLog:
    """Watches one node; use as a context manager, and ask afterwards too."""

    def __init__(self, cluster: NodeCluster, node: str, folder: Path) -> None:
        argv = [str(cluster.tools.plane.kubectl), f"--kubeconfig={cluster.kubeconfig}", "get", "node", node]
        argv += ["--watch", "--output=jsonpath={.metadata.labels}{'\\n'}"]
        self._process = Process(Program(f"labels-{node}", argv), folder / f"labels-{node}.log")

    def __enter__(self) -> Self:
        self._process.wait_ready(lambda: bool(self.seen()), _START_S, "watching")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.stop()

    def seen(self) -> list[dict[str, str]]:
        """Return the labels after each change of the node, in order."""
        lines = self._process.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def always(self, label: str) -> bool:
        """Tell whether the label was there all the time."""
        return all(label in labels for labels in self.seen())
