"""Which model a service means, and who uses a model or a cache."""

from typing import Any

import pytest

from controller.services.references import (
    asks_for_cache,
    kserve_services_with,
    kserve_uris,
    model_of,
    refers_to,
    services_with,
)
from shared.api.inference_service import ModelRef
from tests.unit.services.services import demand, service

CLUSTER, OWN = demand(), demand(namespace="team")
ENABLE = "serving.kserve.io/enable-model-cache"


def test_a_name_means_one_kind() -> None:
    both = [CLUSTER, OWN, demand(namespace="other"), demand("n")]
    assert model_of(service(), both) == CLUSTER
    assert model_of(service(model=ModelRef(kind="BaseModel", name="m")), both) == OWN
    assert model_of(service(model=ModelRef(kind="BaseModel", name="n")), both) is None


def test_a_cache_of_that_name_is_none() -> None:
    assert not refers_to(service(), demand(kind="ClusterModelCache"))


@pytest.mark.parametrize("uri", ["hf://o/m", "hf://o/m@main", "hf://o/m:main", "hf://o/m/"])
def test_a_uri_means_the_model_that_has_it_in_whatever_spelling(uri: str) -> None:
    assert model_of(service(storage_uri=uri), [demand(uri="hf://o/m2@main"), CLUSTER]) == CLUSTER


@pytest.mark.parametrize("uri", ["hf://o/m@v2", "hf://o/m2", "nonsense", "nfs://x/y"])
def test_another_uri_means_none(uri: str) -> None:
    assert model_of(service(storage_uri=uri), [CLUSTER, demand(uri="", invalid="no URI")]) is None


def test_of_several_with_the_uri_the_usable_then_the_own_then_the_oldest() -> None:
    older = demand("older", created="2025-01-01T00:00:00Z")
    going = demand("going", created="2024-01-01T00:00:00Z", deleting=True)
    off = demand("off", namespace="team", disabled=True)
    asks = service(storage_uri="hf://o/m")
    assert model_of(asks, [CLUSTER, older, going, off]) == older
    assert model_of(asks, [CLUSTER, older, OWN]) == OWN
    assert model_of(asks, [going]) == going, "it has its user until another takes its place"


def test_a_claim_is_named_as_the_kind_s_own_form_has_it() -> None:
    own = demand(namespace="team", uri="pvc://claim/dir/llama", on_claim=True)
    cluster = demand(uri="pvc://team/claim/dir", on_claim=True)
    assert model_of(service(storage_uri="pvc://claim/dir/llama"), [own, cluster]) == own
    assert model_of(service(storage_uri="pvc://team/claim/dir"), [own, cluster]) == cluster


def test_users_are_those_that_mean_it_and_are_not_on_their_way_out() -> None:
    by_name, by_uri = service("a"), service("b", storage_uri="hf://o/m")
    gone = service("c", metadata={"deletion_timestamp": "t"})
    elsewhere = service("d", model=ModelRef(name="n"))
    services = [by_name, by_uri, gone, elsewhere]
    assert list(services_with(CLUSTER, services, [CLUSTER])) == [by_name, by_uri]
    assert list(services_with(CLUSTER, services, [CLUSTER, OWN])) == [by_name], "the namespace's own serves the URI"
    assert list(services_with(CLUSTER, services, [])) == [by_name, by_uri], "a model that memory has lost has users"
    assert list(services_with(demand(namespace="other"), services, [])) == []


def kserve(name: str, predictor: dict[str, Any], asks: str | None = "true", **meta: Any) -> dict[str, Any]:
    annotations = {ENABLE: asks} if asks else {}
    return {"metadata": {"name": name, "namespace": "team", "annotations": annotations, **meta},
            "spec": {"predictor": predictor}}  # fmt: skip


CACHE = demand("c", kind="ClusterModelCache", uri="s3://bkt/models")
LONGER = demand("longer", kind="ClusterModelCache", uri="s3://bkt/models/llama", groups=("a", "b"))


@pytest.mark.parametrize(
    ("uri", "users"),
    [
        ("s3://bkt/models", ["team/s"]),
        ("s3://bkt/models/", ["team/s"]),
        ("s3://bkt/models/gemma", ["team/s"]),
        ("s3://bkt/models2", []),
        ("s3://bkt/models/llama", []),
        ("s3://bkt/models/llama/part", ["team/s"]),  # admission takes the shorter one where the longer lacks the part
        ("nonsense", []),
    ],
)
def test_a_service_of_kserve_uses_the_cache_with_the_longest_uri(uri: str, users: list[str]) -> None:
    services = [kserve("s", {"model": {"storageUri": uri}})]
    assert list(kserve_services_with(CACHE, services, [CACHE, LONGER])) == users


@pytest.mark.parametrize(("group", "users"), [("a", []), ("b", []), ("c", ["team/s"]), ("", [])])
@pytest.mark.parametrize("place", ["service", "predictor"])
def test_a_longer_uri_takes_only_services_whose_group_it_is_on(group: str, users: list[str], place: str) -> None:
    asked = kserve("s", {"model": {"storageUri": "s3://bkt/models/llama"}})
    annotations = {ENABLE: "true", "serving.kserve.io/nodegroup": group}
    (asked["metadata"] if place == "service" else asked["spec"]["predictor"])["annotations"] = annotations
    assert list(kserve_services_with(CACHE, [asked], [CACHE, LONGER])) == users
    assert list(kserve_services_with(LONGER, [asked], [CACHE, LONGER])) == ["team/s"]


def test_a_longer_uri_that_pods_cannot_get_takes_none() -> None:
    asked = kserve("s", {"model": {"storageUri": "s3://bkt/models/llama"}})
    assert list(kserve_services_with(CACHE, [asked], [CACHE])) == ["team/s"]


def test_one_that_does_not_ask_or_is_going_uses_none() -> None:
    predictor = {"model": {"storageUri": "s3://bkt/models"}}
    services = [
        kserve("a", predictor, "false"),
        kserve("b", predictor, None),
        kserve("c", predictor, deletionTimestamp="t"),
        kserve("d", predictor | {"annotations": {ENABLE: "True"}}, None),
    ]
    assert list(kserve_services_with(CACHE, services, [CACHE])) == ["team/d"]


def test_uris_of_a_predictor_old_and_new() -> None:
    predictor = {"storageUri": "a://x", "model": {"storageUri": "b://x"}, "sklearn": {"storageUri": "c://x"},
                 "minReplicas": 1, "model2": {"storageUri": ""}}  # fmt: skip
    assert list(kserve_uris(kserve("s", predictor))) == ["a://x", "b://x", "c://x"]
    assert list(kserve_uris({})) == []
    assert not asks_for_cache({})
