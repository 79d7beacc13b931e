"""What `larder why` reports about InferenceServices and other objects that own pods."""

from dataclasses import replace
from typing import Any

import pytest

from controller.admission.pods.pod_annotations import BASE_MODEL, NOT_CACHED
from controller.cli.why.findings import Severity
from controller.cli.why.kinds import (
    EventObject,
    ObservedPod,
    ObservedPodStatus,
    PodTemplate,
    Workload,
    WorkloadEvent,
    WorkloadSpec,
    WorkloadStatus,
)
from controller.cli.why.objects import ObservedObject, ObservedTree, why_object
from controller.cli.why.view import ClusterView, LeaseHolder
from controller.cli.why.workloads import workload_of
from shared.api.core import ObservedCondition
from tests.builders.cluster import meta
from tests.builders.why import reasons

CLUSTER = ClusterView(leader=LeaseHolder("controller-0"))


def tree(status: Any = None, **fields: Any) -> ObservedTree:
    return ObservedTree("InferenceService", ObservedObject(metadata=meta("llama", namespace="team"), status=status),
                        **fields)  # fmt: skip


def condition(kind: str, status: str = "False", message: str = "words") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": f"Why{kind}", "message": message}


def reference(uid: str) -> list[dict[str, Any]]:
    return [{"uid": uid, "controller": True}]


def deployment(name: str = "web") -> Workload:
    template = PodTemplate(metadata=meta("", annotations={BASE_MODEL: "missing"}))
    return Workload(metadata=meta(name, namespace="team"), spec=WorkloadSpec(template=template),
                    status=WorkloadStatus())  # fmt: skip


@pytest.mark.parametrize(
    "status", [None, "x", [], {"conditions": "x"}, {"conditions": ["x", None]}, {"conditions": None}]
)
def test_a_status_of_any_shape_is_read(status: Any) -> None:
    assert reasons(why_object(tree(status), CLUSTER)) == {"NoPods"}


def test_each_message_of_the_conditions_is_reported_once() -> None:
    listed = [condition("Ready"), condition("PredictorReady"), condition("Stopped", message="other"),
              condition("Failed", "True", "failed")]  # fmt: skip
    answer = why_object(tree({"conditions": listed}), CLUSTER)
    assert answer.title == "InferenceService team/llama"
    assert reasons(answer) == {"WhyReady", "WhyFailed", "NoPods"}


def test_a_condition_without_a_message_is_reported_with_its_status() -> None:
    answer = why_object(tree({"conditions": [condition("Failed", "True", "")]}), CLUSTER)
    assert "condition Failed is True" in {f.message for f in answer.findings}


def test_problems_of_its_deployment_are_reported_with_its_name() -> None:
    event = WorkloadEvent(
        metadata=meta("e"), involved_object=EventObject(uid="uid-set"), reason="FailedCreate", message="exceeded quota"
    )
    body = deployment()
    newest = Workload(metadata=meta("web-1", uid="uid-set", owner_references=reference(body.metadata.uid)))
    found = tree(workloads=(workload_of("Deployment", body, [newest], [], [event]),))
    reasons = {f.about: f.reason for f in why_object(found, CLUSTER).findings if f.severity == Severity.STOP}
    assert reasons == {
        "Deployment web: template": "ModelNotFound",
        "Deployment web: API server": "FailedCreate",
    }


def test_pods_that_belong_to_no_workload_are_explained_and_running_ones_without_a_cache_too() -> None:
    ready = ObservedPodStatus(phase="Running", conditions=[ObservedCondition(type="Ready", status="True")])
    annotations = {NOT_CACHED: "no cache has it"}
    head = ObservedPod(metadata=meta("head", namespace="team", annotations=annotations), status=ready)
    worker = ObservedPod(metadata=meta("worker", namespace="team", annotations=annotations))
    answer = why_object(tree(pods=(head, worker)), CLUSTER)
    reasons = {f.about: f.reason for f in answer.findings if f.severity == Severity.STOP}
    assert reasons == {"pod/head: admission": "NotCached", "pod/worker: admission": "NotCached"}


def test_many_workloads_are_truncated_with_problems_first() -> None:
    idle = replace(workload_of("Deployment", deployment("idle"), [], [], []))
    found = tree(workloads=(*[workload_of("Job", deployment(f"w{n}"), [], [], []) for n in range(5)], idle))
    answer = why_object(found, CLUSTER)
    assert "More" in reasons(answer, Severity.FACT)


def test_kinds_that_the_user_may_not_list_are_named() -> None:
    assert "NotShown" in reasons(why_object(tree(hidden=("pods",)), CLUSTER), Severity.FACT)
