"""Which of KServe's services, stopped ones included, use a cache."""

from typing import Any

import pytest

from controller.admission.catalog.port import PathKind
from controller.inferenceservices.kserve import components_of, kserve_services_with, read_service
from controller.placement.demand import Demand
from tests.builders.services import demand

ENABLE = "serving.kserve.io/enable-model-cache"


def kserve(name: str, predictor: dict[str, Any], requests_cache: str | None = "true", **meta: Any) -> dict[str, Any]:
    annotations = {ENABLE: requests_cache} if requests_cache else {}
    return {"metadata": {"name": name, "namespace": "team", "annotations": annotations, **meta},
            "spec": {"predictor": predictor}}  # fmt: skip


CACHE = demand("c", kind="ClusterModelCache", uri="s3://bkt/models")
LONGER = demand("longer", kind="ClusterModelCache", uri="s3://bkt/models/llama", groups=("a", "b"))


def using(cache: Demand, services: list[dict[str, Any]], usable: list[Demand], *kind_of: Any) -> list[str]:
    return list(kserve_services_with(cache, map(read_service, services), usable, *kind_of))


@pytest.mark.parametrize(
    ("uri", "users"),
    [
        ("s3://bkt/models", ["team/s"]),
        ("s3://bkt/models/", ["team/s"]),
        ("s3://bkt/models/gemma", ["team/s"]),
        ("s3://bkt/models2", []),
        ("s3://bkt/models/llama", []),
        ("s3://bkt/models/llama/part", ["team/s"]),  # admission takes the shorter URI if the longer one lacks the part
        ("nonsense", []),
    ],
)
def test_a_service_of_kserve_uses_the_cache_with_the_longest_uri(uri: str, users: list[str]) -> None:
    services = [kserve("s", {"model": {"storageUri": uri}})]
    assert using(CACHE, services, [CACHE, LONGER]) == users


@pytest.mark.parametrize(("group", "users"), [("a", []), ("b", []), ("c", ["team/s"]), ("", [])])
@pytest.mark.parametrize("place", ["service", "predictor"])
def test_a_cache_with_a_longer_uri_takes_over_only_services_of_its_groups(
    group: str, users: list[str], place: str
) -> None:
    asked = kserve("s", {"model": {"storageUri": "s3://bkt/models/llama"}})
    annotations = {ENABLE: "true", "serving.kserve.io/nodegroup": group}
    (asked["metadata"] if place == "service" else asked["spec"]["predictor"])["annotations"] = annotations
    assert using(CACHE, [asked], [CACHE, LONGER]) == users
    assert using(LONGER, [asked], [CACHE, LONGER]) == ["team/s"]


def test_a_service_without_the_annotation_or_being_deleted_uses_no_model() -> None:
    predictor = {"model": {"storageUri": "s3://bkt/models"}}
    services = [
        kserve("a", predictor, "false"),
        kserve("b", predictor, None),
        kserve("c", predictor, deletionTimestamp="t"),
        kserve("d", predictor | {"annotations": {ENABLE: "True"}}, None),
    ]
    assert using(CACHE, services, [CACHE]) == ["team/d"]


def test_an_annotation_of_a_component_counts_for_that_component_alone() -> None:
    predictor = {"model": {"storageUri": "s3://bkt/models"}, "annotations": {ENABLE: "false"}}
    transformer = {"containers": [container("s3://bkt/models/tokenizer")]}
    assert using(CACHE, [kserve("a", predictor)], [CACHE]) == []
    both = kserve("b", predictor)
    both["spec"]["transformer"] = transformer
    assert using(CACHE, [both], [CACHE]) == ["team/b"]


def container(uri: str) -> dict[str, Any]:
    return {"name": "any", "env": [{"name": "OTHER", "value": "x"}, {"name": "STORAGE_URI", "value": uri}]}


def uris(spec: dict[str, Any]) -> list[str]:
    return [uri for component in components_of({"spec": spec}) for uri in component.uris]


CLAIM = {"uri": "pvc://claim", "mountPath": "/mnt/claim"}
MODEL = {"uri": "s3://b/m", "mountPath": "/mnt/models"}


@pytest.mark.parametrize(
    ("component", "named"),
    [
        ({"storageUri": "a://x", "model": {"storageUri": "b://x"}, "sklearn": {"storageUri": "c://x"},
          "minReplicas": 1, "model2": {"storageUri": ""}}, ["a://x", "b://x", "c://x"]),
        ({"model": {}, "storageUris": [MODEL]}, ["s3://b/m"]),
        ({"model": {}, "storageUris": [CLAIM, MODEL]}, ["s3://b/m"]),
        ({"model": {}, "storageUris": [MODEL, MODEL]}, []),
        ({"containers": [container("s3://b/m"), {"name": "side"}]}, ["s3://b/m"]),
        ({"model": {"storage": {"key": "k", "path": "/m", "parameters": {"bucket": "b"}}}}, ["s3://b/m"]),
        ({"model": {"storage": {"key": "k", "path": "m"}}}, []),
        ({"model": {"storage": {"path": "m", "parameters": {"type": "hdfs", "bucket": "b"}}}}, []),
        ({"model": {"storage": {"key": "k"}}}, []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["predictor", "transformer", "explainer", "canary"])
def test_the_uris_that_a_component_may_download_are_found(
    component: dict[str, Any], named: list[str], place: str
) -> None:
    spec = {"canary": [{"predictor": component}]} if place == "canary" else {place: component}
    assert uris(spec) == named


def test_an_llm_service_uses_what_its_model_names_unless_adapters_are_downloaded_too() -> None:
    model: dict[str, Any] = {"uri": "s3://bkt/models"}
    service = {
        "kind": "LLMInferenceService",
        "metadata": {"name": "s", "namespace": "team"},
        "spec": {"model": model, "annotations": {ENABLE: "true"}},
    }
    assert using(CACHE, [service], [CACHE]) == ["team/s (LLMInferenceService)"]
    model["lora"] = {"adapters": [{"uri": "pvc://claim/a"}]}
    assert using(CACHE, [service], [CACHE]) == ["team/s (LLMInferenceService)"]
    model["lora"]["adapters"].append({"uri": "hf://o/a"})
    assert using(CACHE, [service], [CACHE]) == []
    prefilled = {"model": {"uri": "s3://bkt/models"}, "prefill": {"annotations": {ENABLE: "true"}}}
    assert using(CACHE, [service | {"spec": prefilled}], [CACHE]) == ["team/s (LLMInferenceService)"]


def test_only_what_matters_of_a_large_service_is_kept() -> None:
    """All services are in memory while one model's deletion is checked; a tenant may write a megabyte into each."""
    predictor = {"containers": [container(f"s3://bkt/{n}") for n in range(20_000)], "annotations": {"a": "b" * 10_000}}
    found = read_service(kserve("s", predictor))
    assert len(found.components[0].uris) == 100
    assert len(repr(found)) < 5000


def test_a_service_does_not_use_a_cache_that_lacks_its_path() -> None:
    def kind_of(cache: Demand, path: str) -> PathKind | None:
        return {("c", "absent"): "absent", ("c", "llama/part"): "file", ("longer", "part"): "directory"}.get(
            (cache.name, path)
        )  # type: ignore[return-value]

    def users(cache: Demand, uri: str) -> list[str]:
        services = [kserve("s", {"model": {"storageUri": uri}})]
        return using(cache, services, [CACHE, LONGER], kind_of)

    assert users(CACHE, "s3://bkt/models/absent") == []
    assert users(CACHE, "s3://bkt/models/unknown") == ["team/s"]
    assert users(CACHE, "s3://bkt/models/llama/part") == [], "the cache with the longer URI is known to have the part"
    assert users(LONGER, "s3://bkt/models/llama/part") == ["team/s"]


@pytest.mark.parametrize("odd", [None, 1, "text", [], ["text"], {"a": 1}, [{"uri": 1}], {"uri": ["x"]}])
def test_malformed_services_are_ignored(odd: Any) -> None:
    names = ("predictor", "transformer", "explainer", "canary", "model", "prefill")
    services = [{"metadata": odd, "spec": odd}, {"spec": dict.fromkeys(names, odd)}]
    inner = ("annotations", "storageUris", "containers", "model", "storageUri", "lora", "uri", "storage")
    services += [{"spec": {name: dict.fromkeys(inner, odd) for name in names}}]
    assert using(CACHE, services, [CACHE]) == []
