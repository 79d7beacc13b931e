"""Which pods wait for which snapshot, and which keys their changes queue."""

from typing import Any

import pytest

from controller.state.keys import EntryKey
from controller.state.pods.waiting_pods import WaitingPods
from shared.api.core import Pod
from shared.kube.objects import Key
from shared.names import snapshot_label
from tests.builders.cluster import pod

M, N = ("m", "r1"), ("n", "r2")


def waiting(node: str = "", models: str = "m@r1", **fields: Any) -> Pod:
    return pod("p", node, **({"phase": "Pending", "annotations": {"larder.dev/models": models}} | fields))


class Woken:
    """The waiting pods, and the uses that they signalled."""

    def __init__(self) -> None:
        self.pods = WaitingPods()
        self.uses = list[tuple[str, EntryKey]]()
        self.pods.changed.listen(lambda *use: self.uses.append(use))

    def take(self) -> list[tuple[str, EntryKey]]:
        taken, self.uses[:] = list(self.uses), []
        return taken


@pytest.fixture
def woken() -> Woken:
    return Woken()


def test_a_pod_waits_until_it_starts(woken: Woken) -> None:
    woken.pods.on_change(None, waiting())
    assert woken.take() == [("ns", M)]
    assert woken.pods.pods_for("ns", M) == [Key("ns", "p")]
    assert woken.pods.uses_of_label(snapshot_label(*M)) == woken.pods.uses_of_id("m") == [("ns", M)]
    woken.pods.on_change(waiting(), waiting("a"))
    assert woken.pods.pods_for("ns", M) == [Key("ns", "p")]
    woken.pods.on_change(waiting("a"), waiting("a", phase="Running"))
    assert woken.take() == [("ns", M), ("ns", M)]
    assert woken.pods.uses() == set()
    assert woken.pods.uses_of_label(snapshot_label(*M)) == woken.pods.uses_of_id("m") == []


def test_a_revision_is_held_only_for_pods_without_a_node(woken: Woken) -> None:
    woken.pods.on_change(None, waiting())
    assert woken.pods.is_needed(M)
    woken.pods.on_change(waiting(), waiting("a"))
    assert not woken.pods.is_needed(M)


def test_a_pod_of_several_models_waits_for_each(woken: Woken) -> None:
    woken.pods.on_change(None, waiting(models="m@r1,n@r2,on-claim"))
    assert woken.take() == [("ns", M), ("ns", N)]
    woken.pods.on_change(waiting(models="m@r1,n@r2,on-claim"), None)
    assert woken.pods.uses() == set()


@pytest.mark.parametrize(
    "models", ["", "m", "m@", "@r", "other_m@r1", ",".join(f"m{i}@r" for i in range(40)), "m@" + "r" * 20_000]
)
def test_forged_or_malformed_requests_are_ignored(woken: Woken, models: str) -> None:
    woken.pods.on_change(None, waiting(models=models))
    assert woken.pods.uses() == set()
