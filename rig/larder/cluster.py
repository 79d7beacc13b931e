"""A cluster with Larder on it: control plane, nodes, sources, controller, agents."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from controller.admission.webhooks import AtUrl, WebhookSettings
from rig import agents
from rig.api import Api
from rig.control_plane import ControlPlane
from rig.larder import objects
from rig.larder.programs import NAMESPACE, STORE_ROOT, AgentProgram, ControllerProgram, Sources, answers
from rig.nodes import Nodes
from rig.processes import wait_until

OBJECTS = {
    "ClusterBaseModel": "/apis/ome.io/v1beta1/clusterbasemodels",
    "ClusterModelCache": "/apis/serving.kserve.io/v1alpha1/clustermodelcaches",
    "ModelCacheNodeGroup": "/apis/serving.kserve.io/v1alpha1/modelcachenodegroups",
    "ModelNode": "/apis/larder.dev/v1alpha1/modelnodes",
    "Node": "/api/v1/nodes",
}


@dataclass(frozen=True)
class LarderOptions:
    """What differs between uses: sources, and settings of the two programs as their environment."""

    sources: Sources = field(default_factory=Sources)
    controller: Mapping[str, str] = field(default_factory=dict)
    agent: Mapping[str, str] = field(default_factory=dict)
    replicas: int = 1


class LarderCluster:
    """An installation on a running control plane; use as a context manager."""

    def __init__(self, plane: ControlPlane, state: Path, options: LarderOptions | None = None) -> None:
        self.plane, self.state, self._options = plane, state, options or LarderOptions()
        self.nodes = Nodes(plane.kubeconfig)
        self.agents: dict[str, AgentProgram] = {}
        self.controllers: list[ControllerProgram] = []
        self._closing = ExitStack()

    @property
    def api(self) -> Api:
        """A client with every right, for the user's part."""
        return self.plane.api

    def __enter__(self) -> Self:
        try:
            self._install()
        except BaseException:
            self._closing.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    def _install(self) -> None:
        agents.ensure_namespace(self.api, NAMESPACE)
        objects.install_kinds(self.api)
        objects.install_roles(self.api, NAMESPACE)
        self._closing.enter_context(self.nodes)
        self._closing.callback(self._stop_programs)
        environ = self._options.sources.environ() | dict(self._options.controller)
        for index in range(self._options.replicas):
            program = ControllerProgram(self.plane, self.state, f"controller-{index}", environ)
            self.controllers.append(program)
            program.start()
        self.aim_webhooks(self.controllers[0])

    def _stop_programs(self) -> None:
        programs: list[AgentProgram | ControllerProgram] = [*self.agents.values(), *self.controllers]
        for program in programs:
            if program.started:
                program.process.stop()

    def aim_webhooks(self, controller: ControllerProgram) -> None:
        """Send admission to one replica; the Service does that in a cluster."""
        settings = WebhookSettings(AtUrl(controller.url), self.plane.ca_pem, NAMESPACE, STORE_ROOT)
        objects.install_webhooks(self.api, settings)

    def add_node(self, name: str, labels: Mapping[str, str] | None = None, *, agent: bool = True) -> None:
        """Add a node, with an agent on it."""
        self.nodes.add(name, labels)
        if agent:
            self.start_agent(name)

    def start_agent(self, name: str, *, wait: bool = True) -> AgentProgram:
        """Start the agent of a node, anew where it has ended."""
        program = self.agents.get(name)
        if program is None:
            environ = self._options.sources.environ() | dict(self._options.agent)
            program = self.agents[name] = AgentProgram(self.plane, self.state, name, environ)
        controller = next(c for c in self.controllers if c.process.exit_code is None)
        program.start(controller.url, controller.ca, wait=wait)
        return program

    def wait_agents(self, within_s: float = 30.0) -> None:
        """Return when every agent that was started is ready."""
        for program in self.agents.values():
            program.process.wait_ready(lambda port=program.port: answers(port), within_s)  # type: ignore[misc]

    def create(self, kind: str, name: str, spec: Mapping[str, Any], **metadata: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of the metadata
        """Create one of our objects, as a user would."""
        body = {"kind": kind, "metadata": {"name": name, **metadata}, "spec": dict(spec)}
        group_version = OBJECTS[kind].removeprefix("/apis/").rpartition("/")[0]
        return self.api.create(OBJECTS[kind], {"apiVersion": group_version, **body})

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """Return one of the objects."""
        return self.api.get(f"{OBJECTS[kind]}/{name}")

    def wait(self, kind: str, name: str, fits: Callable[[dict[str, Any]], bool], within_s: float, what: str) -> None:
        """Return when an object fits; raise StartFailed naming `what` after `within_s`."""
        wait_until(lambda: fits(self.get(kind, name)), within_s, what)
