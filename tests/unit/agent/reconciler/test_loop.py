"""The agent's loop, one step at a time."""

from pathlib import Path

from agent.reconciler.observation import Reserved
from shared.api.model_node import Entry, ModelNode, ModelNodeSpec
from shared.kube.objects import Meta
from shared.manifest import File, build_manifest
from tests.unit.agent.reconciler.node_rig import NODE_UID, NodeRig


def test_a_pass_with_many_slow_steps_does_not_make_the_agent_look_dead(tmp_path: Path) -> None:
    manifests = [build_manifest(f"local://{tmp_path}/m{i}", "r1", [File("0.bin", 5)]) for i in range(3)]
    rig = NodeRig(tmp_path, {m.digest: m for m in manifests})
    wanted = [Entry(id=f"m{i}", revision="r1", uri=m.uri, manifest=m.digest) for i, m in enumerate(manifests)]
    rig.cluster.model_node = ModelNode(
        metadata=Meta(name="n1", uid="mn-1", generation=1), spec=ModelNodeSpec(node_uid=NODE_UID, entries=wanted)
    )
    try:
        rig.deliver()
        while rig.answers.waiting:
            rig.answer(0)
        while rig.threads.waiting:
            rig.wait(28)  # for each step: the disk is slow
            assert rig.reconciler.why_not_alive() == ""
            rig.work(0)
        assert [type(work) for work in rig.cache.works.values()] == [Reserved] * 3
    finally:
        rig.close()
