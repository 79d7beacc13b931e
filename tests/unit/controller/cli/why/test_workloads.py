"""What `larder why` reports about Deployments, ReplicaSets, StatefulSets and Jobs."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controller.admission.pods.pod_annotations import BASE_MODEL, ENABLE_CACHE, NAMED_MODELS
from controller.cli.why.findings import Diagnosis, Severity
from controller.cli.why.kinds import (
    ObservedPod,
    ObservedPodSpec,
    ObservedPodStatus,
    PodTemplate,
    Workload,
    WorkloadEvent,
    WorkloadSpec,
    WorkloadStatus,
)
from controller.cli.why.view import ClusterView, DeclaredModel, LeaseHolder
from controller.cli.why.workloads import ObservedWorkload, why_workload
from controller.jobs.observed_jobs import ContainerState, ContainerStatus, Waiting
from controller.placement.demand_of_kind import base_model_demand, cache_demand
from shared.api.base_model import BaseModelStatus
from shared.api.core import ObservedCondition
from shared.api.meta import Condition
from tests.builders.cluster import base_model, cache, meta

DENIED = 'admission webhook "pods.larder.dev" denied the request: there is no BaseModel "m"'


def workload(kind: str = "Deployment", asks: Any = None, spec: Any = None, **status: Any) -> ObservedWorkload:
    """A workload without pods that should have one with model `m`."""
    template = PodTemplate(metadata=meta("", annotations={BASE_MODEL: "m"} if asks is None else asks))
    body = Workload(
        metadata=meta("web", namespace="team"),
        spec=WorkloadSpec(template=template, **(spec or {})),
        status=WorkloadStatus(**status),
    )
    return ObservedWorkload(kind, body)


def model(state: str = "Ready") -> DeclaredModel:
    found = base_model("team", "m")
    ready = Condition(type="Ready", status="True" if state == "Ready" else "False", reason="Why", message="words",
                      last_transition_time="")  # fmt: skip
    status = BaseModelStatus(state=state, conditions=[ready])  # type: ignore[arg-type]
    return DeclaredModel(
        base_model_demand("BaseModel", msgspec.structs.replace(found, status=status)), found.metadata, status
    )


def seen(*models: DeclaredModel) -> ClusterView:
    return ClusterView(models=models or (model(),), leader=LeaseHolder("controller-0"))


def warning(message: str, reason: str = "FailedCreate") -> WorkloadEvent:
    return WorkloadEvent(metadata=meta("e"), reason=reason, message=message)


def findings_of(answer: Diagnosis, weight: Severity) -> dict[str, str]:
    return {f.reason: f"{f.about}: {f.message}" for f in answer.findings if f.severity == weight}


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "Job"])
def test_a_pod_refused_by_admission_is_reported_with_its_message(kind: str) -> None:
    found = replace(workload(kind), warnings=(warning(f"create Pod web-0 failed error: {DENIED}"), warning(DENIED)))
    answer = why_workload(found, seen())
    assert findings_of(answer, Severity.STOP) == {"PodRefused": 'admission: there is no BaseModel "m"'}
    assert answer.summary == "admission: PodRefused"
    assert answer.title == f"{kind} team/web"


def test_a_pod_refused_by_a_quota_is_reported_with_the_server_s_message() -> None:
    failure = ObservedCondition(
        type="ReplicaFailure", status="True", reason="FailedCreate", message="exceeded quota: pods"
    )
    found = workload(conditions=[failure])
    newest = replace(found, newest=found.body, warnings=(warning("of the past"),))
    assert findings_of(why_workload(newest, seen()), Severity.STOP) == {
        "FailedCreate": "API server: exceeded quota: pods"
    }


def test_an_earlier_refusal_is_not_reported_once_the_pods_exist() -> None:
    pods = (
        pod("web-1", ObservedPodStatus(phase="Running", conditions=[ObservedCondition(type="Ready", status="True")])),
    )
    found = replace(workload(replicas=1, ready_replicas=1), pods=pods, warnings=(warning(DENIED),))
    answer = why_workload(found, seen())
    assert answer.summary == "no problems found"
    assert findings_of(answer, Severity.FACT)["Ready"] == "pods: 1 of 1 are ready, 1 exist"


def pod(name: str, status: ObservedPodStatus) -> ObservedPod:
    return ObservedPod(
        metadata=meta(name, namespace="team", annotations={ENABLE_CACHE: "false"}),
        spec=ObservedPodSpec(node_name="a"),
        status=status,
    )


def test_a_container_that_does_not_start_is_reported_with_its_pod() -> None:
    waits = ContainerStatus(state=ContainerState(waiting=Waiting(reason="ImagePullBackOff", message="no such image")))
    pods = [pod(f"web-{n}", ObservedPodStatus(phase="Pending", container_statuses=[waits])) for n in range(5)]
    answer = why_workload(replace(workload(spec={"replicas": 5}), pods=tuple(pods)), seen())
    assert findings_of(answer, Severity.STOP)["ImagePullBackOff"].startswith("pod/web-2: container: no such image")
    assert findings_of(answer, Severity.FACT)["More"].startswith("pods: 2 more are not ready")


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (workload(spec={"paused": True}), "Paused"),
        (workload("Job", spec={"suspend": True}), "Suspended"),
        (
            workload(conditions=[ObservedCondition(type="Progressing", status="False", reason="Late", message="m")]),
            "Late",
        ),
        (
            workload("Job", conditions=[ObservedCondition(type="Failed", status="True", reason="Spent", message="m")]),
            "Spent",
        ),
        (workload(asks={BASE_MODEL: "other"}), "ModelNotFound"),
    ],
)
def test_obstacles_of_a_workload_are_reported(found: ObservedWorkload, reason: str) -> None:
    assert reason in findings_of(why_workload(found, seen()), Severity.STOP)


def test_an_annotation_in_the_wrong_place_is_reported() -> None:
    found = workload(asks={})
    own = msgspec.structs.replace(found.body, metadata=meta("web", namespace="team", annotations={BASE_MODEL: "m"}))
    answer = why_workload(replace(found, body=own), seen())
    assert answer.summary == "template: AnnotationMisplaced"
    assert "AsksForNoModel" in findings_of(why_workload(found, seen()), Severity.FACT)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (workload(spec={"replicas": 0}), "ScaledToZero"),
        (workload("Job", succeeded=1, conditions=[ObservedCondition(type="Complete", status="True")]), "Complete"),
    ],
)
def test_a_workload_that_is_complete_or_scaled_to_zero_is_not_a_problem(found: ObservedWorkload, reason: str) -> None:
    answer = why_workload(found, seen())
    assert reason in findings_of(answer, Severity.FACT)
    assert not findings_of(answer, Severity.STOP)


@pytest.mark.parametrize(("state", "weight"), [("Ready", "."), ("In_Transit", "~"), ("Failed", "!")])
def test_the_model_of_a_workload_is_reported_and_a_failed_one_fails_the_command(state: str, weight: str) -> None:
    answer = why_workload(workload(), seen(model(state)))
    (reported,) = (f for f in answer.findings if f.reason == "Model")
    assert (reported.severity, reported.about) == (weight, "BaseModel team/m")
    assert answer.failed is (state == "Failed")


@pytest.mark.parametrize(
    "key", ["larder.dev/model", "larder.dev/layout", "larder.dev/placement", "serving.kserve.io/nodegroup"]
)
def test_each_annotation_for_pods_is_searched_for_on_the_workload(key: str) -> None:
    found = workload(asks={})
    own = msgspec.structs.replace(found.body, metadata=meta("web", namespace="team", annotations={key: "m"}))
    (finding,) = [
        f for f in why_workload(replace(found, body=own), seen()).findings if f.reason == "AnnotationMisplaced"
    ]
    assert key in finding.message


@pytest.mark.parametrize("text", ["m", "basemodel/m", "bm/m, m"])
def test_models_that_any_pod_can_name_are_reported(text: str) -> None:
    answer = why_workload(workload(asks={NAMED_MODELS: text}), seen())
    assert findings_of(answer, Severity.FACT)["Model"].startswith("BaseModel team/m")
    assert "ModelNotFound" not in findings_of(answer, Severity.STOP)


def test_unknown_and_ambiguous_model_names_are_reported() -> None:
    cached = cache("m", "gpus")
    known = DeclaredModel(cache_demand("ClusterModelCache", cached), cached.metadata, cached.status)
    both = seen(model(), known)
    assert "AmbiguousModel" in findings_of(why_workload(workload(asks={NAMED_MODELS: "m"}), both), Severity.STOP)
    assert "AmbiguousModel" not in findings_of(
        why_workload(workload(asks={NAMED_MODELS: "cmc/m"}), both), Severity.STOP
    )
    assert "ModelNotFound" in findings_of(why_workload(workload(asks={NAMED_MODELS: "bm/other"}), both), Severity.STOP)


@pytest.mark.parametrize("text", ["", "nokind/m", ",".join(f"m{n}" for n in range(17))])
def test_a_refusal_of_admission_keeps_its_message(text: str) -> None:
    assert not findings_of(why_workload(workload(asks={NAMED_MODELS: text}), seen()), Severity.STOP)
