"""The real JobSet controller beside Larder, with nodes that have no kubelet.

Mounted claims are tested on real nodes.
"""

import json
from collections.abc import Iterator

import pytest

from rig.binaries import Binaries
from rig.larder.site import Site
from rig.operators.jobset import RELEASE
from rig.operators.operator import Operator
from tests.builders.replica_claims import WORKLOADS, reading_role
from tests.integration.system.sites import opened


@pytest.fixture(scope="package")
def site(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Larder with volume claim templates, and JobSet."""
    state = tmp_path_factory.mktemp("jobset")
    settings = {"LARDER_CLAIM_TEMPLATE_WORKLOADS": json.dumps(WORKLOADS), "LARDER_LEASE_SECONDS": "4"}
    with (
        opened(binaries, state, settings, {}, replicas=1) as larder,
        Operator(RELEASE, larder.cluster.plane, state / "jobset"),
    ):
        role, binding = reading_role()
        larder.api.ensure("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
        larder.api.ensure("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        yield larder
