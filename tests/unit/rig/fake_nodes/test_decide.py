import datetime as dt
from typing import Any

import pytest

from rig.fake_nodes.decide import NEVER_STARTS, BoundPod, Leave, PatchPodStatus, Release, decide, probe_port
from rig.fake_nodes.manifests import NodeSpec, is_ready, status
from shared.kube.objects import Meta

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=dt.UTC)
READY = {"type": "Ready", "status": "True"}


def _pod(
    node: str = "a", *, deleted: bool = False, starts: bool = True, job: bool = False, **pod_status: Any
) -> BoundPod:
    annotations = {} if starts else {NEVER_STARTS: ""}
    meta = Meta(
        name="p",
        namespace="n",
        uid="u",
        deletion_timestamp="now" if deleted else None,
        annotations=annotations,
        finalizers=["batch.kubernetes.io/job-tracking"] if job else [],
    )
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "image"}]}
    return BoundPod(metadata=meta, spec=spec, status=pod_status)


@pytest.mark.parametrize(
    ("pod", "answers", "expected"),
    [
        (_pod(node="lost", deleted=True), True, Leave),
        (_pod(node=""), True, Leave),
        (_pod(deleted=True), True, Release),
        (_pod(phase="Succeeded"), True, Leave),
        (_pod(phase="Pending"), True, PatchPodStatus),
        (_pod(phase="Pending", starts=False), True, Leave),
        (_pod(deleted=True, starts=False), True, Release),
        (_pod(phase="Running", conditions=[READY]), True, Leave),
        (_pod(phase="Running", conditions=[READY]), False, PatchPodStatus),
        (_pod(phase="Running"), False, Leave),
        (_pod(deleted=True, job=True, phase="Running"), True, PatchPodStatus),
        (_pod(deleted=True, job=True, phase="Failed"), True, Release),
    ],
)
def test_the_state_of_a_pod_decides_what_its_node_does(pod: BoundPod, answers: bool, expected: type) -> None:  # noqa: FBT001 - a column
    assert isinstance(decide(pod, {"a"}, NOW, answers=answers), expected)


def test_a_status_patch_keeps_foreign_conditions_and_carries_the_uid_of_the_pod() -> None:
    pod = _pod(phase="Pending", conditions=[{"type": "PodScheduled", "status": "True"}])
    report = decide(pod, {"a"}, NOW, answers=True)
    assert isinstance(report, PatchPodStatus)
    assert report.patch["metadata"] == {"uid": "u"}
    conditions = {one["type"]: one["status"] for one in report.patch["status"]["conditions"]}
    assert conditions == dict.fromkeys(("PodScheduled", "Initialized", "ContainersReady", "Ready"), "True")
    assert report.patch["status"]["startTime"] == "2026-01-02T03:04:05Z"
    assert report.patch["status"]["containerStatuses"][0]["ready"] is True


def test_only_agents_are_probed() -> None:
    labels, annotations = {"app.kubernetes.io/component": "agent"}, {"rig/probe-port": "8080"}
    agent = Meta(name="p", labels=labels, annotations=annotations)
    assert probe_port(BoundPod(metadata=agent)) == 8080
    assert probe_port(BoundPod(metadata=Meta(name="p", annotations=annotations))) is None
    assert probe_port(BoundPod(metadata=Meta(name="p", labels=labels))) is None


def test_a_node_sets_ready_and_keeps_foreign_conditions() -> None:
    others = [{"type": "MemoryPressure", "status": "Unknown"}, {"type": "Ready", "status": "Unknown"}]
    conditions = status(NodeSpec("a"), others, NOW)["status"]["conditions"]
    assert [one["type"] for one in conditions] == ["MemoryPressure", "Ready"]
    assert is_ready(conditions)
    assert not is_ready(others)
