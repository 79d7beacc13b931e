import json
from typing import Any, cast

from agent.reconciler.labeller import Labeller
from agent.reconciler.own_node import OwnNode, OwnNodeState
from agent.reconciler.startup_taint import STARTUP_TAINTS
from agent.reconciler.state_cache import StateCache
from shared.kube.errors import KubeError, NotAdmitted, Refused
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


class Failing:
    """An API server that answers with these errors, then accepts."""

    def __init__(self, *errors: KubeError) -> None:
        self.errors = list(errors)

    async def request(self, *_: Any, **__: Any) -> bytes:
        if self.errors:
            raise self.errors.pop(0)
        return json.dumps(
            {"metadata": {"name": "n", "uid": "u", "labels": {"model-cache-ready-llama": "true"}}}
        ).encode()


async def test_refused_labels_are_noted_at_once_and_other_errors_once_they_last() -> None:
    down = [NotAdmitted("failed calling webhook", 500)] * 3
    cache = StateCache(node=OwnNodeState("u"))
    api = cast("Kube", Failing(Refused("denied by a policy", 403), *down))
    labeller = Labeller(cache, OwnNode(api, "n"), lambda: 50.0, lambda: None)
    found = []
    for _ in range(5):
        await labeller.change({"model-cache-ready-llama": "true"})
        found.append(cache.labels_refused)
    assert found == ["denied by a policy", "denied by a policy", *["failed calling webhook"] * 2, ""]
