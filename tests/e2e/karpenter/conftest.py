"""The real Karpenter beside Larder, with a pool at zero.

Its nodes have no kubelet, so that the tests need neither root nor images.
"""

from collections.abc import Iterator

import pytest

from rig.binaries import Binaries
from rig.karpenter.controller import Karpenter
from tests.e2e.karpenter.pool import Pool
from tests.integration.system.sites import opened


@pytest.fixture(scope="package")
def pool(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """The pool of the examples, which has no node yet, and their model."""
    state = tmp_path_factory.mktemp("karpenter")
    with opened(binaries, state, {}, {}, replicas=1) as larder, Karpenter(larder.cluster.plane, state / "karpenter"):
        larder.push(repo="hf-internal-testing/tiny-random-gpt2")
        pool = Pool(larder, binaries.kubectl)
        pool.apply(pool.example("model.yaml"), pool.node_class())
        yield pool
