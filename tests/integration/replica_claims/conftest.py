"""Larder with volume claim templates switched on, on a control plane of its own, without nodes."""

import json
from collections.abc import Iterator

import pytest

from rig.binaries import Binaries
from rig.larder.site import Site
from tests.builders.replica_claims import WORKLOADS, reading_role
from tests.integration.replica_claims.namespaces import Tenant
from tests.integration.system.sites import opened


@pytest.fixture(scope="package")
def site(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster that creates claims fast enough for tests, but slowly enough to queue hundreds."""
    settings = {
        "LARDER_CLAIM_TEMPLATE_WORKLOADS": json.dumps(WORKLOADS),
        "LARDER_LEASE_SECONDS": "4",
        "LARDER_VOLUMES_QPS": "40",
        "LARDER_VOLUMES_BURST": "50",
    }
    with opened(binaries, tmp_path_factory.mktemp("replica-claims"), settings, {}, replicas=1) as site:
        role, binding = reading_role()
        site.api.ensure("/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
        site.api.ensure("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        yield site


@pytest.fixture
def tenant(site: Site) -> Iterator[Tenant]:
    """A namespace of the test's own."""
    tenant = Tenant(site, site.name("team"))
    site.api.ensure("/api/v1/namespaces", {"metadata": {"name": tenant.namespace}})
    site.until(lambda: site.api.answers(tenant.path("serviceaccounts", "default")), "the account")
    yield tenant
    site.api.delete(f"/api/v1/namespaces/{tenant.namespace}")
