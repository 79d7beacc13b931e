"""The manifests of a service's objects."""

import copy
from typing import Any

from controller.inferenceservices.objects import (
    autoscaler_of,
    deployment_of,
    kube_service_of,
    path_of,
    template_of,
    url_of,
)
from controller.inferenceservices.view import ServedModel
from controller.state.keys import ModelKey
from tests.builders.services import READY, TEMPLATE, service


def test_each_object_is_owned_by_and_named_after_its_service() -> None:
    made = service(replicas={"min": 1, "max": 2})
    for manifest in (deployment_of(made, READY, replicas=1), kube_service_of(made), autoscaler_of(made)):
        (owner,) = manifest["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("InferenceService", "svc-1", True)
        assert owner["blockOwnerDeletion"] is False, "blockOwnerDeletion would require a permission on finalizers"
        assert (manifest["metadata"]["name"], manifest["metadata"]["namespace"]) == ("svc", "team")


def test_the_users_template_gets_the_label_and_annotations_that_request_the_model() -> None:
    written = copy.deepcopy(TEMPLATE)
    written["metadata"] = {"labels": {"mine": "yes"}, "annotations": {"note": "n"}, "generateName": "x"}
    found = template_of(service(template=written), READY)
    assert found["spec"] == TEMPLATE["spec"]
    assert found["metadata"]["generateName"] == "x"
    assert found["metadata"]["labels"] == {"mine": "yes", "larder.dev/inference-service": "svc"}
    assert found["metadata"]["annotations"] == {
        "note": "n",
        "ome.io/base-model-name": "m",
        "larder.dev/model-kind": "ClusterBaseModel",
        "larder.dev/model-container": "main",
        "larder.dev/serves": "m@r1",
    }
    assert written["metadata"]["labels"] == {"mine": "yes"}, "the decoded object is not changed"


def test_a_user_cannot_override_larders_own_labels() -> None:
    written: dict[str, Any] = {"metadata": {"labels": {"larder.dev/inference-service": "x"}, "annotations": None}}
    found = template_of(service(template=TEMPLATE | written), READY)
    assert found["metadata"]["labels"]["larder.dev/inference-service"] == "svc"


def test_the_named_container_gets_the_model() -> None:
    named = template_of(service(container="side"), ServedModel("m", ModelKey("BaseModel", "team", "m")))
    assert named["metadata"]["annotations"]["larder.dev/model-container"] == "side"
    assert named["metadata"]["annotations"]["larder.dev/model-kind"] == "BaseModel"


def test_pods_are_selected_by_the_service_label_alone() -> None:
    made = deployment_of(service(), READY, replicas=None)
    assert made["spec"]["selector"] == {"matchLabels": {"larder.dev/inference-service": "svc"}}
    assert kube_service_of(service())["spec"]["selector"] == {"larder.dev/inference-service": "svc"}


def test_the_strategy_of_the_service_is_passed_to_its_deployment() -> None:
    made = deployment_of(service(strategy={"type": "Recreate"}), READY, replicas=None)
    assert made["spec"]["strategy"] == {"type": "Recreate"}
    assert "strategy" not in deployment_of(service(), READY, replicas=None)["spec"]


def test_an_autoscaler_scales_by_cpu_unless_metrics_are_given() -> None:
    spec = autoscaler_of(service(replicas={"min": 1, "max": 4}))["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (1, 4)
    assert spec["metrics"][0]["resource"]["target"]["averageUtilization"] == 80
    own = {"type": "Pods", "pods": {"metric": {"name": "queue"}}}
    assert autoscaler_of(service(replicas={"min": 1, "max": 4, "metrics": [own]}))["spec"]["metrics"] == [own]


def test_the_url_of_a_service_omits_port_80() -> None:
    assert url_of(service()) == "http://svc.team.svc:8080"
    assert url_of(service(port=80)) == "http://svc.team.svc"
    assert path_of("Service", "team", "svc") == "/api/v1/namespaces/team/services/svc"
