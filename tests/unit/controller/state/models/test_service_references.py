"""Which model a service refers to, and which services use a model."""

import pytest

from controller.state.models.service_references import model_of, refers_to, services_with
from shared.api.inference_service import ModelRef
from tests.builders.services import demand, service

CLUSTER, OWN = demand(), demand(namespace="team")


def test_a_reference_by_name_matches_only_its_kind() -> None:
    both = [CLUSTER, OWN, demand(namespace="other"), demand("n")]
    assert model_of(service(), both) == CLUSTER
    assert model_of(service(model=ModelRef(kind="BaseModel", name="m")), both) == OWN
    assert model_of(service(model=ModelRef(kind="BaseModel", name="n")), both) is None


def test_a_reference_by_name_does_not_match_a_cache() -> None:
    assert not refers_to(service(), demand(kind="ClusterModelCache"))


@pytest.mark.parametrize("uri", ["hf://o/m", "hf://o/m@main", "hf://o/m:main", "hf://o/m/"])
def test_a_uri_matches_its_model_in_every_equivalent_spelling(uri: str) -> None:
    assert model_of(service(storage_uri=uri), [demand(uri="hf://o/m2@main"), CLUSTER]) == CLUSTER


@pytest.mark.parametrize("uri", ["hf://o/m@v2", "hf://o/m2", "nonsense", "nfs://x/y"])
def test_another_uri_matches_no_model(uri: str) -> None:
    assert model_of(service(storage_uri=uri), [CLUSTER, demand(uri="", invalid="no URI")]) is None


def test_of_several_models_with_a_uri_the_usable_own_and_oldest_is_preferred() -> None:
    older = demand("older", created="2025-01-01T00:00:00Z")
    going = demand("going", created="2024-01-01T00:00:00Z", deleting=True)
    off = demand("off", namespace="team", disabled=True)
    asks = service(storage_uri="hf://o/m")
    assert model_of(asks, [CLUSTER, older, going, off]) == older
    assert model_of(asks, [CLUSTER, older, OWN]) == OWN
    assert model_of(asks, [going]) == going, "it has its user until it is replaced"


def test_a_claim_uri_matches_in_the_form_of_its_scope() -> None:
    own = demand(namespace="team", uri="pvc://claim/dir/llama", on_claim=True)
    cluster = demand(uri="pvc://team/claim/dir", on_claim=True)
    assert model_of(service(storage_uri="pvc://claim/dir/llama"), [own, cluster]) == own
    assert model_of(service(storage_uri="pvc://team/claim/dir"), [own, cluster]) == cluster


def test_users_of_a_model_are_services_that_refer_to_it_and_are_not_being_deleted() -> None:
    by_name, by_uri = service("a"), service("b", storage_uri="hf://o/m")
    gone = service("c", metadata={"deletion_timestamp": "t"})
    elsewhere = service("d", model=ModelRef(name="n"))
    services = [by_name, by_uri, gone, elsewhere]
    assert list(services_with(CLUSTER, services, [CLUSTER])) == [by_name, by_uri]
    assert list(services_with(CLUSTER, services, [CLUSTER, OWN])) == [by_name], "the namespace's own serves the URI"
    assert list(services_with(CLUSTER, services, [])) == [by_name, by_uri], (
        "a model that is missing from the cache still has users"
    )
    assert list(services_with(demand(namespace="other"), services, [])) == []
