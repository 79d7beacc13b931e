"""The real KServe controller beside Larder: nodes without a kubelet, so that it needs neither root nor images.

Pods are created by KServe's Deployments and pass KServe's webhook and ours. Mounted models are tested on real nodes.
"""

from collections.abc import Iterator

import pytest

from rig.binaries import Binaries
from rig.kserve.controller import KServe
from tests.e2e.kserve.services import KServeSite
from tests.integration.system.sites import GPU, opened

FAST = {"fast": "yes"}


@pytest.fixture(scope="package")
def site(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KServeSite]:
    """Nodes `a` and `b` in the group `gpus`, `b` alone in `fast`, which an affinity defines, `c` in `others`."""
    state = tmp_path_factory.mktemp("kserve")
    nodes = {"a": GPU, "b": GPU | FAST, "c": {"other": "yes"}}
    settings = {"LARDER_DRAIN_SECONDS": "1", "LARDER_FINALIZER_SECONDS": "60"}
    with opened(binaries, state, settings, nodes, replicas=1) as larder, KServe(larder.cluster.plane, state / "kserve"):
        term = {"matchExpressions": [{"key": "fast", "operator": "In", "values": ["yes"]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        larder.create("ModelCacheNodeGroup", "fast", {"storageLimit": "1Gi", "nodeAffinity": required})
        larder.create("ModelCacheNodeGroup", "others", {"storageLimit": "1Gi", "nodeSelector": {"other": "yes"}})
        yield KServeSite(larder, binaries.kubectl)
