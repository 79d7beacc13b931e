"""A cluster with Larder's programs on rig nodes, its sources, and actions for tests of the whole system."""

import json
from dataclasses import dataclass
from pathlib import Path

import httpx

from rig.api import Api
from rig.errors import CallRefused
from rig.larder.cluster import LarderCluster
from rig.larder.cluster_driver import ClusterDriver
from rig.larder.objects import KINDS
from rig.larder.programs import ControllerProgram
from rig.processes import tail
from rig.source_fixtures import FileServer
from shared.json_object import Json

_PODS = "/api/v1/namespaces/default/pods"
_MAX_EVENTS, _LOG_LINES = 60, 40


@dataclass(kw_only=True)
class Site(ClusterDriver):
    """The cluster and its sources; nodes have no kubelet, and pods no processes."""

    cluster: LarderCluster
    web: FileServer
    web_url: str

    @property
    def api(self) -> Api:
        """A client with all rights."""
        return self.cluster.api

    def store(self, node: str) -> Path:
        """Return the path of a node's store on this machine."""
        return self.cluster.agents[node].root

    def explain(self) -> str:
        """Return the statuses of the agents, the last Events, and the end of the programs' logs."""
        programs = [*self.cluster.controllers, *self.cluster.agents.values()]
        logs = (f"{p.log}:\n{tail(p.log, _LOG_LINES)}" for p in programs if p.started)
        try:
            return "\n".join([*self._statuses(), *self._events(), *logs])
        except (CallRefused, httpx.HTTPError) as error:
            return "\n".join([f"the API server could not be asked: {error}", *logs])

    def _statuses(self) -> list[str]:
        nodes = self.api.get(KINDS["ModelNode"])["items"]
        return [f"{node['metadata']['name']}: {json.dumps(node.get('status'))}" for node in nodes]

    def _events(self) -> list[str]:
        found = self.api.get("/api/v1/events")["items"]
        return [
            f"{event['metadata']['creationTimestamp']} {event['involvedObject']['kind']} "
            f"{event['involvedObject']['name']} {event['reason']}: {event['message']}"
            for event in sorted(found, key=lambda e: str(e["metadata"]["creationTimestamp"]))[-_MAX_EVENTS:]
        ]

    def leader(self) -> ControllerProgram:
        """Wait for a leading replica and return it."""
        found: list[ControllerProgram] = []

        def leads() -> bool:
            found[:] = [leader] if (leader := self.cluster.leader()) else []
            return bool(found)

        self.until(leads, "a leader")
        return found[0]

    def limit_with_room(self, node: str, size_bytes: int) -> str:
        """Return a storage limit under which a node has this much room beside what earlier tests left on it."""
        found: list[Json] = []

        def is_settled() -> bool:
            found[:] = [self.get("ModelNode", node)]
            wanted, held = (
                {(entry["id"], entry["revision"]) for entry in found[0].get(part, {}).get("entries", [])}
                for part in ("spec", "status")
            )
            return held <= wanted

        self.until(is_settled, f"node {node} to remove what it no longer needs")
        return str(found[0]["status"]["used"] + size_bytes)

    def listed(self, model: str) -> dict[str, tuple[Json, Json]]:
        """Return a model's entry and its status ({} if none yet) by node, in one read; the model has one revision."""
        found: dict[str, tuple[Json, Json]] = {}
        for node in self.api.get(KINDS["ModelNode"])["items"]:
            statuses = {(s["id"], s["revision"]): s for s in node.get("status", {}).get("entries", [])}
            for entry in node.get("spec", {}).get("entries", []):
                if entry["id"] == model:
                    found[node["metadata"]["name"]] = entry, statuses.get((model, entry["revision"]), {})
        return found

    def pod(self, body: Json, behind: str = "") -> Json:
        """Create a pod and return it as admitted.

        `behind` is the message of a replica whose cache is behind; the request is repeated while refusals contain it.
        """
        made: list[Json] = []

        def is_made() -> bool:
            try:
                made.append(self.api.create(_PODS, body))
            except CallRefused as refusal:
                if not behind or behind not in str(refusal):
                    raise
            return bool(made)

        self.until(is_made, "the pod to be admitted")
        return made[0]

    def pod_node(self, name: str) -> str:
        """Return the node that the scheduler chose; empty if it has not chosen yet."""
        return str(self.api.get(f"{_PODS}/{name}")["spec"].get("nodeName", ""))

    def delete_pod(self, name: str) -> None:
        """Delete a pod at once."""
        self.api.delete(f"{_PODS}/{name}", grace_s=0)
