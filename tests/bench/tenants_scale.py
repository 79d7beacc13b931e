"""What many models of one namespace cost others: `python -m tests.bench.tenants_scale [MODELS [NODES]]`.

Nothing is served: the figures are counts of steps and bytes, and the CPU time of decisions.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import aiohttp
import msgspec

from controller.manager.controller import QueueKey
from controller.nodes.decide import CreateModelNode, WriteModelNode, decide
from controller.nodes.entry_states import RemovalTiming
from controller.nodes.keys import NodeKey
from controller.nodes.observe import NodeObserver
from controller.nodes.wanted import find_unplaced
from controller.placement.groups import NodeLimits
from controller.placement.shares import ModelNodeCapacity
from controller.state.cluster_state import ClusterState
from controller.state.dra.claim_users import ResourceClaimUsers
from controller.state.dra.resource_slices import ResourceSliceReader
from controller.state.keys import ModelKey
from controller.state.live_reader import LiveReader
from shared.api.base_model import BaseModel, BaseModelSpec, BaseModelStatus, Storage
from shared.api.model_node import EntryStatus, ModelNode, ModelNodeSpec, ModelNodeStatus
from shared.kube.credentials import Access
from shared.kube.objects import Meta
from shared.kube.transport import Kube
from shared.kube.work_queue import WorkQueue
from tests.bench.controller_scale import NOW, entry, node
from tests.builders.cluster import WokenKeys

DEFAULTS = (2100, 3)
GREEDY, OTHER = "greedy", "other"


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print the CPU time of a block."""
    began = time.process_time()
    yield
    notify(what, f"{(time.process_time() - began) * 1e3:.1f} ms")


def notify(what: str, figure: object) -> None:
    sys.stdout.write(f"{what:70} {figure}\n")


def model(namespace: str, index: int, revision: str = "c0ffee", version: str = "1") -> BaseModel:
    name = f"model-{index:04}"
    return BaseModel(
        metadata=Meta(name=name, namespace=namespace, uid=f"uid-{namespace}-{index}", resource_version=version),
        spec=BaseModelSpec(storage=Storage(storage_uri=f"hf://org/{name}")),
        status=BaseModelStatus(
            source=f"hf://org/{name}@main",
            resolved_revision=revision,
            serving_revision="c0ffee",
            manifest_digest="d" * 64,
        ),
    )


def model_node(name: str, ids: list[str], ready: int, version: str) -> ModelNode:
    reported = [
        EntryStatus(id=m, revision="c0ffee", phase="Ready" if i < ready else "Waiting", observed="Present")
        for i, m in enumerate(ids)
    ]
    return ModelNode(
        metadata=Meta(name=name, uid=f"mn-{name}", resource_version=version),
        spec=ModelNodeSpec(node_uid=f"uid-{name}", entries=[entry(m) for m in ids]),
        status=ModelNodeStatus(node_uid=f"uid-{name}", entries=reported),
    )


def place(observer: NodeObserver, cluster: ClusterState, name: str) -> ModelNodeSpec:
    """Reconcile a node once, and return the resulting spec."""
    view = observer.view(name, (), NOW)
    assert view is not None
    view = replace(view, unplaced=find_unplaced(view, NOW, ModelNodeCapacity()))
    cluster.unplaced.set(name, view.unplaced)
    return next(a.spec for a in decide(view, NOW, RemovalTiming()) if isinstance(a, CreateModelNode | WriteModelNode))


def turn_of(models: int) -> int:
    """Return the position at which a later model of another namespace is served."""
    queue: WorkQueue[QueueKey] = WorkQueue(lambda *_: None, flow_of=lambda key: key.flow)
    for i in range(models):
        queue.add(ModelKey("BaseModel", GREEDY, f"model-{i:04}"))
    late = ModelKey("BaseModel", OTHER, "ours")
    queue.add(late)
    return next(turn for turn in range(1, models + 2) if queue._queue.pop() == late)


async def main(models: int, nodes: int) -> None:
    cluster = ClusterState(NodeLimits(2**40, 0), asyncio.get_running_loop().time)
    woken = WokenKeys(cluster)
    names = [f"node-{i:05}" for i in range(nodes)]
    cluster.nodes.replace([node(i, 1) for i in range(nodes)])
    cluster.base_models.replace([model(GREEDY, i) for i in range(models)])
    notify("turn in the queue of a model of another namespace", turn_of(models))
    async with aiohttp.ClientSession() as session:  # no source is queried
        kube = Kube(Access("http://127.0.0.1"), session)
        observer = NodeObserver(
            cluster,
            kube,
            LiveReader(kube),
            "/var/lib/larder",
            ResourceClaimUsers(kube, enabled=False),
            ResourceSliceReader(kube, enabled=False),
        )
        with timed(f"a look at a node with {models} models of one namespace"):
            spec = place(observer, cluster, names[0])
        notify("entries that it may have", len(spec.entries))
        ids = [e.id for e in spec.entries]
        for name in names:
            cluster.model_nodes.upsert(model_node(name, ids, 0, "1"))
        cluster.base_models.upsert(model(OTHER, 0))
        with timed("the next look, with one of another namespace"):
            spec = place(observer, cluster, names[0])
        notify("entries of the other namespace", sum(e.id.startswith(OTHER) for e in spec.entries))
        notify("bytes of the spec", len(msgspec.json.encode(spec)))
    woken.take()
    with timed("a status in which twenty entries became Ready"):
        cluster.model_nodes.upsert(model_node(names[0], ids, 20, "2"))
    notify("models that have a turn for it", sum(isinstance(key, ModelKey) for key in woken.take()))
    notify("bytes of that status", len(msgspec.json.encode(model_node(names[0], ids, 20, "2").status)))
    woken.take()
    found = model_node(names[0], ids, 20, "3")
    more = msgspec.structs.replace(found.spec, entries=[*found.spec.entries, entry("z")])
    with timed("a spec with one more entry"):
        cluster.model_nodes.upsert(msgspec.structs.replace(found, spec=more))
    notify("models that have a turn for it", sum(isinstance(key, ModelKey) for key in woken.take()))
    woken.take()
    with timed("a model is resolved"):
        cluster.base_models.upsert(model(GREEDY, 1, "beef", "2"))
    notify("nodes that have a turn for it", sum(isinstance(key, NodeKey) for key in woken.take()))


if __name__ == "__main__":
    arguments = [int(argument) for argument in sys.argv[1:]]
    asyncio.run(main(*arguments, *DEFAULTS[len(arguments) :]))
