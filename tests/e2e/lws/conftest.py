"""The real LeaderWorkerSet controller beside Larder, on nodes without a kubelet."""

import json
from collections.abc import Iterator

import pytest

from rig.binaries import Binaries
from rig.larder.site import Site
from rig.operators.lws import RELEASE
from rig.operators.operator import Operator
from tests.builders.replica_claims import WORKLOADS, reading_role
from tests.integration.system.sites import GPU, opened


@pytest.fixture(scope="package")
def site(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Nodes `a` and `b` of the group `gpus`, and `c` outside."""
    state, settings = tmp_path_factory.mktemp("lws"), {"LARDER_CLAIM_TEMPLATE_WORKLOADS": json.dumps(WORKLOADS)}
    nodes = {"a": GPU, "b": GPU, "c": {}}
    with (
        opened(binaries, state, settings, nodes, replicas=1) as larder,
        Operator(RELEASE, larder.cluster.plane, state / "lws"),
    ):
        role, binding = reading_role()
        larder.api.ensure("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
        larder.api.ensure("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        yield larder
