"""Which keys are queued when a service, its Deployment, its model or a pod changes."""

import msgspec
import pytest

from controller.inferenceservices.controller import same_named_service, service_of_deployment
from controller.inferenceservices.keys import ServiceKey
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from shared.api.inference_service import ModelRef
from shared.kube.objects import Key, Meta, Object
from shared.names import USER_LABEL, uses_label
from tests.builders.cluster import WokenKeys, cluster_model, fresh_cluster, pod
from tests.builders.services import service

SERVICE, MODEL = ServiceKey("team", "svc"), ModelKey("ClusterBaseModel", "", "m")
LABEL = "larder.dev/inference-service"


@pytest.fixture
def cluster() -> ClusterState:
    return fresh_cluster()


@pytest.fixture
def woken(cluster: ClusterState) -> WokenKeys:
    return WokenKeys(cluster)


def test_a_service_wakes_its_key_and_is_listed_for_a_new_leader(cluster: ClusterState, woken: WokenKeys) -> None:
    cluster.inference_services.upsert(service())
    assert woken.take() == {SERVICE}
    woken.enqueue_all()
    assert SERVICE in woken.take()


def test_a_model_wakes_the_services_that_name_it_in_either_way(cluster: ClusterState, woken: WokenKeys) -> None:
    cluster.inference_services.upsert(service())
    cluster.inference_services.upsert(service("by-uri", storage_uri="hf://org/m"))
    cluster.inference_services.upsert(service("other", model=ModelRef(name="n")))
    woken.take()
    cluster.cluster_base_models.upsert(cluster_model("m", {}))
    assert woken.take() == {MODEL, SERVICE, ServiceKey("team", "by-uri")}
    cluster.cluster_base_models.remove(Key("", "m"))
    assert SERVICE in woken.take()


def test_the_end_of_the_last_user_wakes_a_model_that_waits_for_it(cluster: ClusterState, woken: WokenKeys) -> None:
    cluster.inference_services.upsert(service())
    labels = {USER_LABEL: "true", uses_label("m"): "true"}
    user = pod("p", "", labels=labels)
    cluster.model_pods.upsert(user)
    cluster.cluster_base_models.upsert(cluster_model("m", {}))
    woken.take()
    cluster.model_pods.remove(user.key)
    assert woken.take() == set(), "only a model that is being deleted waits for its users"
    cluster.cluster_base_models.upsert(cluster_model("m", {}, deletion_timestamp="t"))
    cluster.model_pods.upsert(user)
    woken.take()
    cluster.model_pods.remove(user.key)
    assert woken.take() == {MODEL}
    cluster.inference_services.remove(Key("team", "svc"))
    assert woken.take() == {MODEL, SERVICE}


def test_a_service_that_changes_its_model_wakes_the_former_model(cluster: ClusterState, woken: WokenKeys) -> None:
    cluster.inference_services.upsert(service())
    cluster.cluster_base_models.upsert(cluster_model("m", {}, deletion_timestamp="t"))
    woken.take()
    moved = service(model=ModelRef(name="n"), metadata={"resource_version": "2"})
    cluster.inference_services.upsert(msgspec.structs.replace(moved))
    assert woken.take() == {MODEL, SERVICE}


def test_a_deployment_wakes_the_same_named_service() -> None:
    made = Object(metadata=Meta(name="svc", namespace="team", labels={LABEL: "svc"}))
    assert [*service_of_deployment(made), *same_named_service(made.key)] == [SERVICE] * 2
    labelled_by_hand = Object(metadata=Meta(name="x", namespace="team", labels={LABEL: "svc"}))
    assert list(service_of_deployment(labelled_by_hand)) == []
