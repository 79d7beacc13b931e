"""Which fields and objects are applied for a service, and which are left to others."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.inferenceservices.decide import (
    MANAGER,
    SCALER,
    Action,
    ApplyObject,
    RemoveObject,
    conflicts,
    decide,
    holds_back,
)
from controller.inferenceservices.view import ServedModel, ServiceView
from shared.kube.objects import Meta
from tests.builders.services import MISSING, READY, WAITING, deployment, owned, view

SCALED = {"min": 2, "max": 5}
SOMEBODY_ELSES = Meta(name="svc", uid="theirs")


def named(actions: list[Action]) -> list[str]:
    """The actions, in order: `Service`, `Deployment`, `number` (of its replicas), `-Kind` for a deletion."""
    return [_name(action) for action in actions]


def _name(action: Action) -> str:
    if isinstance(action, RemoveObject):
        return f"-{action.kind}"
    return "number" if action.manager == SCALER else action.kind


def manifest(seen: ServiceView, what: str = "Deployment") -> dict[str, Any]:
    return next(dict(a.manifest) for a in decide(seen) if isinstance(a, ApplyObject) and _name(a) == what)


@pytest.mark.parametrize("model", [MISSING, WAITING])
def test_no_pod_is_requested_before_the_model_is_ready(model: ServedModel) -> None:
    assert named(decide(view(model))) == ["Service"]
    assert named(decide(view(model, replicas=SCALED))) == ["Service"]


def test_a_new_deployment_also_gets_its_replicas_applied_by_a_separate_field_manager() -> None:
    seen = view(replicas={"min": 3})
    assert named(decide(seen)) == ["Service", "Deployment", "number"]
    assert manifest(seen)["spec"]["replicas"] == 3
    assert manifest(seen, "number")["spec"] == {"replicas": 3}


def test_a_fixed_number_of_replicas_is_applied_before_and_apart_from_the_deployment() -> None:
    seen = view(deployment=deployment(), replicas={"min": 3})
    assert named(decide(seen)) == ["Service", "number", "Deployment"]
    assert "replicas" not in manifest(seen)["spec"]


def test_the_number_of_replicas_is_left_to_an_existing_autoscaler() -> None:
    assert named(decide(view(replicas=SCALED))) == ["Service", "Deployment", "number", "HorizontalPodAutoscaler"]
    seen = view(deployment=deployment(wanted=4), replicas=SCALED, autoscaler=owned())
    assert named(decide(seen)) == ["Service", "Deployment", "HorizontalPodAutoscaler"]


@pytest.mark.parametrize("replicas", [{"min": 1}, {"min": 0, "max": 5}, {"min": 2, "max": 2}])
def test_an_unwanted_autoscaler_is_deleted_only_if_it_is_ours(replicas: dict[str, int]) -> None:
    seen = view(deployment=deployment(), replicas=replicas, autoscaler=owned())
    assert decide(seen)[-1] == RemoveObject("HorizontalPodAutoscaler", "made-1")
    assert "-HorizontalPodAutoscaler" not in named(
        decide(view(deployment=deployment(), replicas=replicas, autoscaler=SOMEBODY_ELSES))
    )


def test_zero_replicas_are_set_in_the_manifest() -> None:
    assert manifest(view(replicas={"min": 0}), "number")["spec"] == {"replicas": 0}


def test_a_deployment_is_only_updated_for_an_unready_model_that_it_already_uses() -> None:
    unready = ServedModel("m", READY.key, "r1", "m@r1", "NodesNotReady", "words")
    assert named(decide(view(unready, deployment=deployment("m@r1")))) == ["Service", "number", "Deployment"]
    assert named(decide(view(unready, deployment=deployment("other@r9")))) == ["Service", "number"]
    assert named(decide(view(MISSING, deployment=deployment("m@r1")))) == ["Service", "number"]


def test_a_service_without_a_ready_model_can_be_stopped_and_scaled() -> None:
    stopped = view(MISSING, deployment=deployment("m@r1", wanted=3), replicas={"min": 0}, autoscaler=owned())
    assert named(decide(stopped)) == ["Service", "number", "-HorizontalPodAutoscaler"]
    assert manifest(stopped, "number")["spec"] == {"replicas": 0}
    scaled = view(MISSING, deployment=deployment("m@r1"), replicas=SCALED)
    assert named(decide(scaled)) == ["Service", "HorizontalPodAutoscaler"]


def test_a_rolling_update_is_taken_over_before_it_is_replaced() -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}
    made = replace(deployment(), spec=replace(deployment().spec, strategy=rolling))
    seen = view(deployment=made, strategy={"type": "Recreate"})
    made_by_us = [a for a in decide(seen) if isinstance(a, ApplyObject) and _name(a) == "Deployment"]
    applied = [action.manifest["spec"]["strategy"] for action in made_by_us]
    assert applied == [rolling, {"type": "Recreate"}]
    for strategy in ({}, {"type": "RollingUpdate"}):
        assert named(decide(view(deployment=made, strategy=strategy))) == ["Service", "number", "Deployment"]
    done = replace(made, spec=replace(made.spec, strategy={"type": "Recreate"}))
    seen = view(deployment=done, strategy={"type": "Recreate"})
    assert named(decide(seen)) == ["Service", "number", "Deployment"]


def test_a_new_revision_changes_the_pod_template() -> None:
    newer = ServedModel("m", READY.key, "r2", "m@r2")
    seen = view(newer, deployment=deployment("m@r1"))
    assert manifest(seen)["spec"]["template"]["metadata"]["annotations"]["larder.dev/serves"] == "m@r2"


@pytest.mark.parametrize(
    ("fields", "kind", "rest"),
    [
        ({"kube_service": SOMEBODY_ELSES}, "Service", ["Deployment", "number", "HorizontalPodAutoscaler"]),
        ({"deployment": deployment(meta=SOMEBODY_ELSES)}, "Deployment", ["Service"]),
        ({"autoscaler": SOMEBODY_ELSES}, "HorizontalPodAutoscaler", ["Service", "Deployment", "number"]),
        ({"kube_service": owned(uid="an earlier one")}, "Service", ["Deployment", "number", "HorizontalPodAutoscaler"]),
        (
            {"kube_service": owned(deletion_timestamp="t")},
            "Service",
            ["Deployment", "number", "HorizontalPodAutoscaler"],
        ),
    ],
)
def test_foreign_objects_are_conflicts_and_left_unchanged(fields: dict[str, Any], kind: str, rest: list[str]) -> None:
    seen = view(replicas=SCALED, **fields)
    assert conflicts(seen) == [kind]
    assert named(decide(seen)) == rest


def test_a_foreign_autoscaler_is_not_a_conflict_if_none_is_wanted() -> None:
    assert conflicts(view(autoscaler=SOMEBODY_ELSES)) == []


def test_no_action_is_taken_for_a_service_being_deleted() -> None:
    assert decide(view(metadata={"deletion_timestamp": "t"}, deployment=deployment(), autoscaler=owned())) == []


@given(
    model=st.sampled_from([MISSING, WAITING, READY]),
    kube_service=st.sampled_from([None, owned(), SOMEBODY_ELSES]),
    made=st.sampled_from([None, deployment(), deployment("x@y"), deployment(meta=SOMEBODY_ELSES)]),
    scaler=st.sampled_from([None, owned(), SOMEBODY_ELSES]),
    low=st.integers(0, 3),
    high=st.none() | st.integers(3, 5),
)
def test_only_owned_objects_are_changed_and_only_one_manager_sets_the_replicas(
    model: ServedModel, kube_service: Any, made: Any, scaler: Any, low: int, high: int | None
) -> None:
    seen = view(
        model, kube_service=kube_service, deployment=made, autoscaler=scaler, replicas={"min": low, "max": high}
    )
    actions = decide(seen)
    metas = {"Service": kube_service, "Deployment": made.metadata if made else None, "HorizontalPodAutoscaler": scaler}
    for action in actions:
        assert metas[action.kind] is None or seen.owns(metas[action.kind])
    stating = [a for a in actions if isinstance(a, ApplyObject) and a.kind == "Deployment" and a.manager == MANAGER]
    if made is not None:
        assert all("replicas" not in a.manifest["spec"] for a in stating)
    if holds_back(seen):
        assert stating == []
