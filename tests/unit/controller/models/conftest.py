"""A cluster state with a group of nodes and two models, and the observer over it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller.models.drift import DriftChecker
from controller.models.observe import ModelObserver
from controller.models.resolver import Resolver
from controller.models.view import ModelView
from controller.sources.credentials import Secrets
from controller.sources.manifests import Manifests
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from controller.state.progress import ProgressTracker
from shared.sources.settings import settings_from_environ
from tests.builders.api_server import Objects, serving
from tests.builders.cluster import (
    cache,
    fresh_cluster,
    group,
    node,
    pod,
)

CACHE, MODEL = ModelKey("ClusterModelCache", "", "m"), ModelKey("ClusterBaseModel", "", "m")


@pytest.fixture
def cluster() -> ClusterState:
    cluster = fresh_cluster()
    cluster.groups.upsert(group("g", {}))
    for name in ("a", "b"):
        cluster.nodes.upsert(node(name, ready=name == "a"))
    cluster.agents.upsert(pod("agent", "a"))
    cluster.cluster_model_caches.upsert(cache("m", "g"))
    return cluster


@pytest.fixture
async def observer(cluster: ClusterState, tmp_path: Path) -> AsyncIterator[ModelObserver]:
    async with serving(Objects(), tmp_path) as kube:
        sources = settings_from_environ({})
        secrets, manifests = Secrets(kube, "ns", sources), Manifests(kube, "ns")
        resolver = Resolver(secrets, manifests, sources, cluster.clock, lambda _: None)
        drift = DriftChecker(resolver.read_upstream_revision, 0, cluster.clock, lambda _: None)
        yield ModelObserver(cluster, resolver, ProgressTracker(cluster.clock, lambda *_: None), drift)


def view(observer: ModelObserver, key: ModelKey) -> ModelView:
    seen = observer.view(key)
    assert seen is not None
    return seen
