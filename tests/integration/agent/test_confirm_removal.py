"""The confirmation before a removal, on the real API server."""

import msgspec
import pytest

from agent.reconciler.actions import Remove
from agent.reconciler.own_node import OwnNode
from agent.reconciler.removals import confirm_removal
from shared.api.model_node import Entry
from shared.errors import NotGranted
from shared.kube.errors import Conflict
from shared.kube.transport import connect
from shared.names import snapshot_label
from tests.integration.agent.node_under_test import Bench

GONE = Entry(id="llama", revision="r1", state="Absent")
LABEL = snapshot_label("llama", "r1")


async def test_a_removal_is_confirmed_only_for_the_newest_generation_without_the_label(bench: Bench) -> None:
    bench.want(GONE)
    first, uid = bench.model_node().metadata, bench.node_uid()
    async with connect(bench.kubeconfig) as kube:
        node = OwnNode(kube, bench.node)
        await confirm_removal(node, uid, Remove(GONE, first.uid, first.generation))

        bench.want(msgspec.structs.replace(GONE, priority=1))
        with pytest.raises(NotGranted):
            await confirm_removal(node, uid, Remove(GONE, first.uid, first.generation))
        second = bench.model_node().metadata
        with pytest.raises(NotGranted):
            await confirm_removal(node, uid, Remove(GONE, "another", second.generation))
        with pytest.raises(NotGranted):
            await confirm_removal(node, "another", Remove(GONE, second.uid, second.generation))

        await node.label(uid, {LABEL: "true"})
        with pytest.raises(NotGranted):
            await confirm_removal(node, uid, Remove(GONE, second.uid, second.generation))
        await node.label(uid, {LABEL: None})
        await confirm_removal(node, uid, Remove(GONE, second.uid, second.generation))


async def test_a_label_is_never_put_on_another_node_of_the_same_name(bench: Bench) -> None:
    old = bench.node_uid()
    bench.api.delete(f"/api/v1/nodes/{bench.node}")
    bench.create_node()
    async with connect(bench.kubeconfig) as kube:
        with pytest.raises(Conflict):
            await OwnNode(kube, bench.node).label(old, {LABEL: "true"})
    assert bench.labels() == set()
