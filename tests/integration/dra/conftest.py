"""A node with a driver for each test, on the session's control plane."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from agent.store.store import Store
from rig.control_plane import ControlPlane
from rig.processes import wait_until
from shared.api.model_node import PATH
from tests.integration.dra.bench import DraBench
from tests.integration.dra.kubelet import DraKubelet

ROLE = "larder-dra-of-the-tests"
RULES = [
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    {"apiGroups": ["larder.dev"], "resources": ["modelnodes"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get", "list"]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"],
     "verbs": ["get", "list", "watch", "create", "update", "delete"]},
]  # fmt: skip
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture(scope="session")
def dra_plane(control_plane: ControlPlane, pytestconfig: pytest.Config) -> ControlPlane:
    """The control plane with the ModelNode kind, and a user with exactly the rights of a driver."""
    api = control_plane.api
    api.ensure(CRDS, yaml.safe_load((pytestconfig.rootpath / "crds" / "modelnodes.larder.dev.yaml").read_text()))
    wait_until(lambda: api.answers(PATH), 60, "the ModelNode kind")
    api.ensure(f"{RBAC}/clusterroles", {"metadata": {"name": ROLE}, "rules": RULES})
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": ROLE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE}
    api.ensure(f"{RBAC}/clusterrolebindings", {"metadata": {"name": ROLE}, "subjects": [subject], "roleRef": role})
    return control_plane


@pytest.fixture
def bare(dra_plane: ControlPlane, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DraBench]:
    """Everything that a driver needs except a Node."""
    node = f"n-{uuid.uuid4().hex[:8]}"
    dra_plane.api.create("/api/v1/namespaces", {"metadata": {"name": node}})
    bench = DraBench(
        api=dra_plane.api,
        node=node,
        namespace=node,
        kubeconfig=dra_plane.kubeconfig_for(ROLE),
        store=Store.open(tmp_path / "store"),
        folder=tmp_path,
        kubelet=DraKubelet(tmp_path_factory.mktemp("k")),  # a socket's path must be short
    )
    path = f"/api/v1/namespaces/{node}/serviceaccounts/default"
    wait_until(lambda: dra_plane.api.answers(path), 60, "the account of pods")
    try:
        yield bench
    finally:
        bench.close()


@pytest.fixture
def bench(bare: DraBench) -> DraBench:
    """A Node without a driver, whose containers get CDI devices."""
    bare.create_node()
    return bare
