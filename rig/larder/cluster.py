"""A cluster with Larder: control plane, nodes, sources, controller and agents."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from rig import agents
from rig.api import Api
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.fake_nodes import Nodes
from rig.held_link import HeldLink
from rig.larder import objects
from rig.larder.programs import (
    ADMISSION_KEY,
    ADMISSION_TIMEOUT_S,
    CONTROLLER,
    NAMESPACE,
    STORE_ROOT,
    AgentProgram,
    ControllerProgram,
    Sources,
    answers,
)
from rig.larder.webhooks import AtUrl, WebhookSettings
from rig.processes import wait_until
from rig.running import Running

_IN_FORCE_S, _READY_S = 120.0, 120.0


@dataclass(frozen=True)
class LarderOptions:
    """Options: the sources, and settings of the two programs as environment variables.

    Controllers reach the API server through `link`, if there is one.
    """

    sources: Sources = field(default_factory=Sources)
    controller: Mapping[str, str] = field(default_factory=dict)
    agent: Mapping[str, str] = field(default_factory=dict)
    replicas: int = 1
    link: HeldLink | None = None


class LarderCluster(Running):
    """An installation on a running control plane; use as a context manager."""

    def __init__(self, plane: ControlPlane, state: Path, options: LarderOptions | None = None) -> None:
        self.plane, self.state, self._options = plane, state, options or LarderOptions()
        self.nodes = Nodes(plane.kubeconfig)
        self.agents: dict[str, AgentProgram] = {}
        self.controllers: list[ControllerProgram] = []
        self._closing = ExitStack()
        self._asked: ControllerProgram | None = None

    @property
    def api(self) -> Api:
        """A client with all rights, for the actions of users."""
        return self.plane.api

    def start(self) -> None:
        """Install everything except nodes, and wait until the controllers are ready."""
        agents.ensure_namespace(self.api, NAMESPACE)
        objects.install_kinds(self.api)
        objects.install_roles(self.api, NAMESPACE)
        objects.open_to_services(self.api, "default")
        self._closing.enter_context(self.nodes)
        self._closing.callback(self._stop_programs)
        environ = self._options.sources.environ() | dict(self._options.controller)
        for index in range(self._options.replicas):
            url = self._options.link.to(self.plane.url) if self._options.link else ""
            program = ControllerProgram(self.plane, self.state, f"controller-{index}", environ, url)
            self.controllers.append(program)
            program.start()
        self.aim_webhooks(self.controllers[0])

    def stop(self) -> None:
        """Stop the programs and the nodes; the objects stay."""
        self._closing.close()

    def _stop_programs(self) -> None:
        programs: list[AgentProgram | ControllerProgram] = [*self.agents.values(), *self.controllers]
        for program in programs:
            if program.started:
                program.process.stop()

    def aim_webhooks(self, controller: ControllerProgram) -> None:
        """Point the webhooks at one replica, as the Service does in a cluster; wait until the API server calls it."""
        self._asked = controller
        address, key, wait_s = AtUrl(controller.url), ADMISSION_KEY, ADMISSION_TIMEOUT_S
        settings = WebhookSettings(address, self.plane.ca_pem, key, NAMESPACE, STORE_ROOT, timeout_s=wait_s)
        objects.install_webhooks(self.api, settings)
        wait_until(lambda: self._is_called(controller), _IN_FORCE_S, f"the API server to call {controller.name}")

    def leader(self) -> ControllerProgram | None:
        """Return the leading replica; None if none leads now."""
        lease = self.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{CONTROLLER}")
        name = str(lease["spec"].get("holderIdentity", "")).partition("_")[0]
        return next((c for c in self.controllers if c.name == name), None)

    def _is_called(self, controller: ControllerProgram) -> bool:
        """Return whether the API server calls a replica, for changes and for checks; it takes a while to load webhooks.

        It loads the configurations of the two kinds independently.
        """
        pod, group = (f"probe-{uuid.uuid4().hex[:8]}" for _ in range(2))
        for refused in (objects.refused_pod(pod), objects.refused_group(group)):
            with suppress(CallRefused):
                self.api.create(*refused)
        log = controller.log.read_text()
        return pod in log and group in log

    def add_node(self, name: str, labels: Mapping[str, str] | None = None, *, agent: bool = True) -> None:
        """Add a node with an agent."""
        self.nodes.add(name, labels)
        if agent:
            self.start_agent(name)

    def start_agent(self, name: str, *, wait: bool = True) -> AgentProgram:
        """Start the agent of a node, or restart it if it has ended."""
        program = self.agents.get(name)
        if program is None:
            environ = self._options.sources.environ() | dict(self._options.agent)
            program = self.agents[name] = AgentProgram(self.plane, self.state, name, environ)
        controller = next(c for c in self.controllers if c.process.exit_code is None)
        program.start(controller.url, controller.ca, wait=wait)
        return program

    @contextmanager
    def without_agent(self, name: str) -> Iterator[AgentProgram]:
        """Stop the agent of a node, and start it again after the block."""
        program = self.agents[name]
        program.process.stop()
        try:
            yield program
        finally:
            self.start_agent(name)

    def restore(self) -> None:
        """Start every program that has ended, and point the webhooks at the first replica again."""
        ended = [program for program in self.controllers if program.process.exit_code is not None]
        for controller in ended:
            controller.start()
        if self._asked is not self.controllers[0]:
            self.aim_webhooks(self.controllers[0])
        for name, agent in self.agents.items():
            if agent.process.exit_code is not None:
                self.start_agent(name)

    def wait_agents(self, within_s: float = _READY_S) -> None:
        """Wait until all started agents are ready."""
        for program in self.agents.values():
            program.process.wait_ready(lambda port=program.port: answers(port), within_s)  # type: ignore[misc]
