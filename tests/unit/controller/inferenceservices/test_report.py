"""What users see of a service."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controller.inferenceservices.report import status_of
from controller.inferenceservices.view import ServedModel, ServiceView
from controller.jobs.observed_jobs import ClaimPod, PodStatus
from shared.api.core import ObservedCondition
from shared.api.inference_service import InferenceServiceStatus
from shared.api.meta import Condition
from shared.kube.objects import Meta
from tests.builders.services import MISSING, READY, WAITING, deployment, view

STAMP = "2026-06-01T12:00:00Z"


def reported(seen: ServiceView, refused: dict[str, str] | None = None, kind: str = "Ready") -> tuple[str, str, str]:
    status = status_of(seen, refused or {}, STAMP)
    found = next(c for c in status.conditions if c.type == kind)
    return found.status, found.reason, found.message


def test_a_service_that_waits_for_its_model_reports_the_models_message() -> None:
    assert reported(view(MISSING)) == (
        "False",
        "ModelNotFound",
        "waiting for its model: there is no ClusterBaseModel m",
    )
    assert reported(view(WAITING))[1:] == ("Downloading", "waiting for its model: 0 of 2 nodes")
    assert reported(view(WAITING), kind="ModelReady") == ("False", "Downloading", "0 of 2 nodes")
    assert reported(view(READY), kind="ModelReady")[:2] == ("True", "Ready")


def test_a_long_uri_without_a_model_fits_into_the_status() -> None:
    uri = f"https://example.org/{'x' * 2000}"
    missing = ServedModel(uri, reason="ModelNotFound", message=f"no ClusterBaseModel has storageUri {uri}")
    written = msgspec.json.encode(status_of(view(missing, storage_uri=uri), {}, STAMP))
    msgspec.json.decode(written, type=InferenceServiceStatus)  # checks the limits of the CustomResourceDefinition


@pytest.mark.parametrize(
    ("fields", "ready", "reason", "phrase"),
    [
        ({"conditions": ["Available=True"], "ready_replicas": 2, "replicas": 2, "updated_replicas": 2},
         "True", "Serving", "2 of 2 pods are ready"),
        ({"conditions": ["Available=True"], "ready_replicas": 2, "replicas": 3, "updated_replicas": 1},
         "True", "Updating", "2 of 2 pods are ready, 1 up to date"),
        ({"conditions": ["Available=True"], "ready_replicas": 2, "replicas": 2, "updated_replicas": 2,
          "observed_generation": 4},
         "True", "Updating", "2 up to date"),
        ({"conditions": ["Available=False", "Progressing=True"]}, "False", "Progressing", "0 of 2 pods are ready"),
        ({"conditions": ["Available=False", "Progressing=False"]}, "False", "Stalled", "; about Progressing"),
        ({"conditions": ["Available=False", "ReplicaFailure=True", "Progressing=True"]},
         "False", "ReplicaFailure", "a pod could not be created: about ReplicaFailure"),
        ({"conditions": ["Available=True", "ReplicaFailure=True"], "ready_replicas": 1, "replicas": 1,
          "updated_replicas": 0},
         "True", "Updating", "a pod could not be created"),
        ({}, "False", "Progressing", "0 of 2 pods are ready"),
    ],
)  # fmt: skip
def test_the_status_of_a_service_follows_the_pods_of_its_deployment(
    fields: dict[str, Any], ready: str, reason: str, phrase: str
) -> None:
    found = reported(view(deployment=deployment(wanted=2, **fields), replicas={"min": 2}))
    assert found[:2] == (ready, reason)
    assert phrase in found[2]


def test_pods_that_serve_continue_though_the_model_is_gone() -> None:
    serving: dict[str, Any] = {
        "conditions": ["Available=True"],
        "ready_replicas": 1,
        "replicas": 1,
        "updated_replicas": 1,
    }
    seen = view(MISSING, deployment=deployment(**serving))
    assert reported(seen)[:2] == ("True", "Serving")
    assert reported(seen, kind="ModelReady")[:2] == ("False", "ModelNotFound")


def test_a_service_scaled_to_zero_is_reported_as_stopped() -> None:
    status: dict[str, Any] = {"conditions": ["Available=True"]}
    assert reported(view(deployment=deployment(wanted=0, **status), replicas={"min": 0}))[:2] == ("False", "Stopped")


def test_name_conflicts_and_refusals_are_reported_before_anything_else() -> None:
    theirs = deployment(meta=Meta(name="svc", uid="theirs"), conditions=["Available=True"], ready_replicas=1)
    found = reported(view(deployment=theirs), {"Service": "no"})
    assert found[:2] == ("False", "NameConflict")
    assert found[2].startswith("Deployment team/svc exists but does not belong to this InferenceService; delete it, or")
    both = replace(view(deployment=theirs), kube_service=Meta(name="svc", uid="theirs"))
    assert "Service team/svc and Deployment team/svc exist but do not belong to this" in reported(both)[2]
    assert "; delete them, or create the InferenceService under another name" in reported(both)[2]
    assert status_of(view(deployment=theirs), {}, STAMP).ready_replicas == 0, "another's pods are not counted"
    assert reported(view(), {"Deployment": "422 Invalid: x"}) == (
        "False",
        "Refused",
        "the API server rejected the Deployment: 422 Invalid: x",
    )


def test_status_figures_are_current_and_conditions_keep_their_transition_times() -> None:
    seen = view(deployment=deployment(replicas=3, ready_replicas=2))
    status = status_of(seen, {}, STAMP)
    assert (status.replicas, status.ready_replicas, status.serving_revision) == (3, 2, "r1")
    assert (status.url, status.model, status.observed_generation) == ("http://svc.team.svc:8080", READY.title, 3)
    before = Condition(type="Ready", status="False", reason="Old", last_transition_time="earlier")
    other = Condition(type="Theirs", status="True", reason="R", last_transition_time="earlier")
    after = status_of(with_status(seen, before, other), {}, STAMP)
    assert {c.type: c.last_transition_time for c in after.conditions} == {
        "Ready": "earlier",
        "ModelReady": STAMP,
        "Reconciling": STAMP,
        "Theirs": "earlier",
    }


def with_status(seen: ServiceView, *conditions: Condition) -> ServiceView:
    known = InferenceServiceStatus(conditions=list(conditions))
    service = type(seen.service)(metadata=seen.service.metadata, spec=seen.service.spec, status=known)
    return ServiceView(service, seen.model, seen.deployment)


def test_pods_read_before_the_deployment_was_complete_are_ignored() -> None:
    unscheduled = ObservedCondition(type="PodScheduled", status="False", message="0/3 nodes are available")
    stale = ClaimPod(metadata=Meta(name="p", namespace="team"), status=PodStatus(conditions=[unscheduled]))
    served: dict[str, Any] = {"conditions": ["Available=True"], "replicas": 2, "updated_replicas": 2}
    short, whole = (view(READY, deployment=deployment(wanted=2, ready_replicas=n, **served)) for n in (1, 2))
    assert "pod p cannot be scheduled" in reported(replace(short, pods=(stale,)))[2]
    assert reported(replace(whole, pods=(stale,))) == ("True", "Serving", "2 of 2 pods are ready")
