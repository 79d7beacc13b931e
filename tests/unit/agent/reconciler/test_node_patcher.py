import json
from typing import Any, cast

from agent.reconciler.labeller import Labeller
from agent.reconciler.own_node import OwnNode, OwnNodeState
from agent.reconciler.startup_taint import STARTUP_TAINTS
from agent.reconciler.state_cache import StateCache
from shared.kube.transport import Kube


class TaintedNode:
    """An API server whose Node has the startup taint."""

    async def request(self, *_: Any, **__: Any) -> bytes:
        taints = [{"key": key, "effect": "NoSchedule"} for key in STARTUP_TAINTS]
        return json.dumps({"metadata": {"name": "n", "uid": "u"}, "spec": {"taints": taints}}).encode()


async def test_a_startup_taint_that_a_patch_of_labels_shows_first_restarts_the_wait() -> None:
    cache = StateCache(node=OwnNodeState("u"))
    labeller = Labeller(cache, OwnNode(cast("Kube", TaintedNode()), "n"), lambda: 50.0, lambda: None)
    await labeller.change({"model-cache-ready-llama": None})
    assert (cache.node.startup_taint, cache.startup_taint.since_s) == (True, 50.0)
