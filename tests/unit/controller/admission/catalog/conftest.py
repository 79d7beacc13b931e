import pytest

from controller.admission.catalog.state_catalog import StateCatalog
from controller.inferenceservices.users import ServiceUsers
from controller.sources.manifests import Manifests
from controller.state.cluster_state import ClusterState
from controller.state.dra.claim_users import ResourceClaimUsers
from shared.kube.transport import Kube
from tests.builders.cluster import (
    fresh_cluster,
)


@pytest.fixture
def cluster() -> ClusterState:
    return fresh_cluster()


@pytest.fixture
def catalog(cluster: ClusterState, kube: Kube) -> StateCatalog:
    return StateCatalog(
        cluster,
        kube,
        Manifests(kube, "ns"),
        ServiceUsers(kube, cluster, enabled=True),
        ResourceClaimUsers(kube, enabled=True),
    )
