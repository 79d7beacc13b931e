"""A node of its own for each test, on the session's control plane and hub."""

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trustme
import yaml

from rig.agents import NAMESPACE, ensure_service_account
from rig.api import Api
from rig.control_plane import ControlPlane
from rig.hub import Hub
from rig.processes import wait_until
from shared.api.model_node import PATH
from tests.integration.agent.fake_controller import FakeController, write_ca
from tests.integration.agent.node_under_test import Bench

ROLE = "larder-agent-of-the-tests"
RULES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]},
    {"apiGroups": ["larder.dev"], "resources": ["modelnodes"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["larder.dev"], "resources": ["modelnodes/status"], "verbs": ["get", "update"]},
]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="session")
def agent_plane(control_plane: ControlPlane, pytestconfig: pytest.Config) -> ControlPlane:
    """The control plane with the ModelNode kind, and a user with exactly the rights of an agent."""
    api = control_plane.api
    crd = yaml.safe_load((pytestconfig.rootpath / "crds" / "modelnodes.larder.dev.yaml").read_text())
    api.ensure(CRDS, crd)
    wait_until(lambda: api.answers(PATH), 60, "the ModelNode kind")
    api.ensure(f"{RBAC}/clusterroles", {"metadata": {"name": ROLE}, "rules": RULES})
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": ROLE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE}
    api.ensure(f"{RBAC}/clusterrolebindings", {"metadata": {"name": ROLE}, "subjects": [subject], "roleRef": role})
    with closing(control_plane.api_for(ROLE)) as user:
        wait_until(lambda: user.answers(PATH), 60, "the rights of the user")
    return control_plane


@pytest.fixture
def admin(agent_plane: ControlPlane) -> Api:
    """A client with all rights."""
    return agent_plane.api


@pytest.fixture
def service_account(agent_plane: ControlPlane, bench: Bench, tmp_path: Path) -> Path:
    """The directory that kubelet mounts into the agent's pod; the address of the API server is in the environment."""
    ensure_service_account(agent_plane.api, ROLE)
    subject = {"kind": "ServiceAccount", "name": ROLE, "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE}
    binding = {"metadata": {"name": f"{ROLE}-in-pods"}, "subjects": [subject], "roleRef": role}
    agent_plane.api.ensure(f"{RBAC}/clusterrolebindings", binding)
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ROLE}/token"
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text(agent_plane.api.create(path, {"spec": {}})["status"]["token"])
    (folder / "ca.crt").write_bytes(agent_plane.ca_pem)
    host, port = agent_plane.server
    bench.environ |= {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": str(port)}
    return folder


@pytest.fixture
def fake_controller(tmp_path: Path) -> Iterator[FakeController]:
    """The controller's API."""
    ca = trustme.CA()
    write_ca(ca, tmp_path / "ca.pem")
    with FakeController(ca, uuid.uuid4().hex) as running:
        yield running


@pytest.fixture
def bench(
    agent_plane: ControlPlane, admin: Api, hub: Hub, fake_controller: FakeController, tmp_path: Path
) -> Iterator[Bench]:
    """A Node without an agent, and everything that an agent needs."""
    token_file = tmp_path / "token"
    token_file.write_text(fake_controller.token)
    bench = Bench(
        api=admin,
        hub=hub,
        controller=fake_controller,
        node=f"n-{uuid.uuid4().hex[:8]}",
        kubeconfig=agent_plane.kubeconfig_for(ROLE),
        state=tmp_path,
        ca_file=tmp_path / "ca.pem",
        token_file=token_file,
    )
    bench.create_node()
    try:
        yield bench
    finally:
        bench.close()
