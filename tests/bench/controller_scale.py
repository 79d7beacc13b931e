"""What the controller's memory costs at scale: `python tests/bench/controller_scale.py [NODES [MODELS [GROUPS]]]`.

Every model is wanted by one group of nodes, every node is in one group, and every node has what it should have.
"""

import asyncio
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import aiohttp

from controller.groups.grants import GrantsReconciler
from controller.models.drift import DriftChecker
from controller.models.observe import ModelObserver
from controller.models.report import report
from controller.models.resolver import Resolver
from controller.nodes.decide import decide
from controller.nodes.entry_states import RemovalTiming
from controller.nodes.observe import NodeObserver
from controller.placement.groups import NodeLimits
from controller.sources.credentials import Secrets
from controller.sources.manifests import Manifests
from controller.state.cluster_state import ClusterState
from controller.state.dra.claim_users import ResourceClaimUsers
from controller.state.dra.resource_slices import ResourceSliceReader
from controller.state.keys import ModelKey
from controller.state.live_reader import LiveReader
from controller.state.progress import ProgressTracker
from shared.api.cluster_model_cache import ClusterModelCache, ClusterModelCacheSpec, ClusterModelCacheStatus
from shared.api.core import HostPath, Node, PlainCondition, Pod, PodSpec, StatusWithConditions, Volume
from shared.api.model_cache_node_group import ModelCacheNodeGroup, ModelCacheNodeGroupSpec
from shared.api.model_node import Claim, Entry, EntryStatus, ModelNode, ModelNodeSpec, ModelNodeStatus
from shared.kube.credentials import Access
from shared.kube.objects import Meta
from shared.kube.transport import Kube
from shared.names import snapshot_path
from shared.sources.settings import settings_from_environ
from tests.builders.cluster import WokenKeys

Scale = tuple[int, int, int]
READY = StatusWithConditions(phase="Running", conditions=[PlainCondition(type="Ready", status="True")])
NOW = datetime(2026, 1, 1, tzinfo=UTC)
DEFAULTS = (5000, 200, 10)


@contextmanager
def timed(what: str, count: int = 1) -> Iterator[None]:
    """Print the CPU time of a block, in total and for each of `count` parts."""
    began = time.process_time()
    yield
    took = time.process_time() - began
    sys.stdout.write(f"{what:40} {took * 1e3:10.1f} ms {took / count * 1e6:10.1f} us each\n")


def node(index: int, groups: int) -> Node:
    name = f"node-{index:05}"
    labels = {"kubernetes.io/hostname": name, "pool": f"p{index % groups}"} | {f"label-{i}": "x" for i in range(20)}
    return Node(metadata=Meta(name=name, uid=f"uid-{name}", labels=labels, resource_version="1"), status=READY)


def group(index: int) -> ModelCacheNodeGroup:
    spec = ModelCacheNodeGroupSpec(storage_limit="1Ti", node_selector={"pool": f"p{index}"}, max_concurrent_nodes=50)
    return ModelCacheNodeGroup(metadata=Meta(name=f"group-{index}", resource_version="1"), spec=spec)


def cache(index: int, groups: int, version: str = "1", revision: str = "c0ffee") -> ClusterModelCache:
    name = f"model-{index:03}"
    return ClusterModelCache(
        metadata=Meta(
            name=name, uid=f"uid-{name}", resource_version=version, creation_timestamp="2026-01-01T00:00:00Z"
        ),
        spec=ClusterModelCacheSpec(storage_uri=f"hf://org/{name}", node_group=f"group-{index % groups}"),
        status=ClusterModelCacheStatus(
            source=f"hf://org/{name}@main",
            resolved_revision=revision,
            serving_revision="c0ffee",
            manifest_digest="d" * 64,
        ),
    )


def model_node(index: int, scale: Scale, version: str = "1", phase: str = "Ready") -> ModelNode:
    name, (_, models, groups) = f"node-{index:05}", scale
    mine = [f"model-{i:03}" for i in range(models) if i % groups == index % groups]
    reported = [EntryStatus(id=m, revision="c0ffee", phase="Ready", observed="Present") for m in mine]
    if reported:
        reported[0] = EntryStatus(id=mine[0], revision="c0ffee", phase=phase, observed="Present")
    return ModelNode(
        metadata=Meta(name=name, uid=f"mn-{name}", resource_version=version),
        spec=ModelNodeSpec(node_uid=f"uid-{name}", entries=[entry(m) for m in mine]),
        status=ModelNodeStatus(node_uid=f"uid-{name}", entries=reported),
    )


def entry(model: str) -> Entry:
    claim = Claim(kind="ClusterModelCache", name=model, uid=f"uid-{model}")
    uri, since = f"hf://org/{model}@main", "2026-01-01T00:00:00Z"
    return Entry(id=model, revision="c0ffee", uri=uri, manifest="d" * 64, since=since, claims=[claim])


def pod(name: str, node_name: str) -> Pod:
    path = f"/var/lib/larder/{snapshot_path('x', 'c0ffee')}"
    spec = PodSpec(node_name=node_name, volumes=[Volume(host_path=HostPath(path=path))])
    return Pod(metadata=Meta(name=name, namespace="default", resource_version="1"), spec=spec, status=READY)


def fill(cluster: ClusterState, scale: Scale) -> None:
    """Fill the state in the worst order: models before the groups and nodes that they refer to."""
    nodes, models, groups = scale
    with timed("fill: models", models):
        cluster.cluster_model_caches.replace([cache(i, groups) for i in range(models)])
    made_nodes = [node(i, groups) for i in range(nodes)]
    with timed("fill: nodes", nodes):
        cluster.nodes.replace(made_nodes)
    with timed("fill: groups", groups):
        cluster.groups.replace([group(i) for i in range(groups)])
    made = [model_node(i, scale) for i in range(nodes)]
    with timed("fill: ModelNodes", nodes):
        cluster.model_nodes.replace(made)
    with timed("fill: agents", nodes):
        cluster.agents.replace([pod(f"agent-{i}", f"node-{i:05}") for i in range(nodes)])
    with timed("fill: users (two per node)", 2 * nodes):
        cluster.model_pods.replace([pod(f"user-{i}", f"node-{i % nodes:05}") for i in range(2 * nodes)])


async def measure(
    cluster: ClusterState, scale: Scale, at_node: NodeObserver, at_model: ModelObserver, grants: GrantsReconciler
) -> None:
    nodes, models, groups = scale
    some = range(0, nodes, max(1, nodes // 100))
    found = [n for i in some if (n := cluster.node(f"node-{i:05}")) is not None]
    with timed("ClusterState.demands_for", len(found)):
        for n in found:
            cluster.demands_for(n)
    with timed("NodeObserver.view", len(found)):
        views = [v for n in found if (v := at_node.view(n.metadata.name, (), NOW)) is not None]
    with timed("nodes.decide", len(views)):
        for view in views:
            decide(view, NOW, RemovalTiming())
    keys = [ModelKey("ClusterModelCache", "", f"model-{i:03}") for i in range(min(models, 20))]
    for which in ("first", "again"):
        with timed(f"ModelObserver.view ({which})", len(keys)):
            model_views = [seen for k in keys if (seen := at_model.view(k)) is not None]
    with timed("models.report", len(keys)):
        for model_view in model_views:
            report(model_view)
    for which in ("first", "again"):
        with timed(f"GrantsReconciler ({which})"):
            await grants.reconcile()
    changed = [model_node(i, scale, "2", "Downloading") for i in some]
    with timed("a ModelNode's status changes", len(changed)):
        for m in changed:
            cluster.model_nodes.upsert(m)
    resolved = [cache(i, groups, "2", "beef") for i in range(10)]
    with timed("a model is resolved", len(resolved)):
        for c in resolved:
            cluster.cluster_model_caches.upsert(c)


async def main(scale: Scale) -> None:
    clock = asyncio.get_running_loop().time
    cluster = ClusterState(NodeLimits(2**40, 0), clock)
    WokenKeys(cluster)
    async with aiohttp.ClientSession() as session:  # no source is queried
        kube, sources = Kube(Access("http://127.0.0.1"), session), settings_from_environ({})
        fill(cluster, scale)
        secrets, manifests = Secrets(kube, "larder-system", sources), Manifests(kube, "larder-system")
        progress = ProgressTracker(clock, lambda *_: None)
        resolver = Resolver(secrets, manifests, sources, clock, lambda _: None)
        drift = DriftChecker(resolver.read_upstream_revision, 6 * 3600, clock, lambda _: None)
        observer = NodeObserver(
            cluster,
            kube,
            LiveReader(kube),
            "/var/lib/larder",
            ResourceClaimUsers(kube, enabled=False),
            ResourceSliceReader(kube, enabled=False),
        )
        grants = GrantsReconciler(cluster, kube, progress, set(), lambda _: None, 120, 600)
        await measure(cluster, scale, observer, ModelObserver(cluster, resolver, progress, drift), grants)
    sys.stdout.write(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB at most\n")


if __name__ == "__main__":
    arguments = [int(argument) for argument in sys.argv[1:]]
    nodes, models, groups = (*arguments, *DEFAULTS[len(arguments) :])
    asyncio.run(main((nodes, models, groups)))
