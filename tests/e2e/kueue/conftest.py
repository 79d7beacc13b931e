"""The real Kueue beside Larder, on nodes without a kubelet."""

from collections.abc import Iterator

import pytest

from rig.binaries import Binaries
from rig.larder.site import Site
from rig.operators.kueue import NAMESPACE, RELEASE
from rig.operators.operator import Operator
from tests.integration.system.sites import opened


@pytest.fixture(scope="package")
def site(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Nodes `a` and `b`, which belong to no group yet."""
    state = tmp_path_factory.mktemp("kueue")
    with opened(binaries, state, {}, {"a": {}, "b": {}}, replicas=1) as larder:
        larder.api.ensure("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        with Operator(RELEASE, larder.cluster.plane, state / "kueue"):
            yield larder
